// The page /devloop/: shows what the plugin's one reading route answers, again every 5 seconds. It only reads;
// every text from a project or a model becomes a text node, never markup.
const REFRESH_MS = 5000
const PROJECTS = new URL('api/projects', document.baseURI)

/** An element with attributes and children; strings become text nodes, empty children are left out. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value)
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== '') node.append(child)
  return node
}

const usd = (micros) => `${(micros / 1e6).toFixed(2)} USD`
const list = (lines) => (lines?.length ? el('ul', null, lines.map((line) => el('li', null, String(line)))) : null)

/** A table of rows of texts; `numbers` are the columns to be set right. */
function table(heads, rows, numbers = []) {
  const cell = (tag) => (text, i) => el(tag, numbers.includes(i) ? { class: 'number' } : null, String(text ?? ''))
  const body = rows.map((row) => el('tr', null, row.map(cell('td'))))
  const head = el('thead', null, el('tr', null, heads.map(cell('th'))))
  return el('div', { class: 'scroll' }, el('table', null, head, el('tbody', null, body)))
}

function question(asked) {
  const offers = asked.answers.map((offer) => {
    const notes = [offer.recommended && 'recommended', offer.spends && 'spends again', offer.discards && 'discards work']
    return el(
      'li',
      null,
      offer.text,
      el('span', { class: 'quiet' }, notes.filter(Boolean).map((note) => ` · ${note}`).join('')),
      el('pre', null, offer.command),
    )
  })
  return el(
    'section',
    { class: 'question' },
    el('p', null, el('strong', null, asked.text)),
    el('p', { class: 'quiet' }, `${asked.key}, since revision ${asked.revision}`),
    list(asked.evidence),
    el('ul', null, offers),
    asked.by_hand?.length ? el('p', { class: 'quiet' }, 'Or by hand:') : null,
    list(asked.by_hand),
  )
}
