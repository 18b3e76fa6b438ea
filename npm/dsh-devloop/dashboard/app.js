// The page /devloop/: shows what the plugin's one reading route answers, again every 5 seconds. It only
// reads; every text from a project or a model becomes a text node, never markup.
const REFRESH_MS = 5000
const PROJECTS = new URL('api/projects', document.baseURI)

/** An element with attributes and children; strings become text nodes, empty children are left out. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value)
  for (const child of children.flat())
    if (child !== null && child !== undefined && child !== '') node.append(child)
  return node
}

const usd = (micros) => `${(micros / 1e6).toFixed(2)} USD`
const list = (lines) =>
  lines?.length
    ? el(
        'ul',
        null,
        lines.map((line) => el('li', null, String(line))),
      )
    : null

/** A table of rows of texts; `numbers` are the columns to be set right. */
function table(heads, rows, numbers = []) {
  const cell = (tag) => (text, i) =>
    el(tag, numbers.includes(i) ? { class: 'number' } : null, String(text ?? ''))
  const body = rows.map((row) => el('tr', null, row.map(cell('td'))))
  const head = el('thead', null, el('tr', null, heads.map(cell('th'))))
  return el('div', { class: 'scroll' }, el('table', null, head, el('tbody', null, body)))
}

function question(asked) {
  const offers = asked.answers.map((offer) => {
    const notes = [
      offer.recommended && 'recommended',
      offer.spends && 'spends again',
      offer.discards && 'discards work',
    ]
    return el(
      'li',
      null,
      offer.text,
      el(
        'span',
        { class: 'quiet' },
        notes
          .filter(Boolean)
          .map((note) => ` · ${note}`)
          .join(''),
      ),
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

/** Why the recorded state is not believed, and what can be done about it. */
function distrust({ phase, reason, question, by_hand, passes_by_itself }) {
  if (phase !== 'untrusted') return null
  const passes = passes_by_itself ? 'It may pass by itself: the loop looks again at every beat.' : null
  return el(
    'section',
    { class: 'question' },
    el('p', null, el('strong', null, question)),
    el('p', { class: 'quiet' }, reason),
    passes ? el('p', { class: 'quiet' }, passes) : null,
    el('p', { class: 'quiet' }, 'Nothing is decided and nothing is written until then. By hand:'),
    list(by_hand),
  )
}

const SPEND = ['measured', 'priced', 'assumed', 'reserved']

function money(view) {
  const sums = Object.entries(view.money ?? {})
  if (!sums.length) return []
  const rows = sums.map(([scope, sum]) => [scope, ...SPEND.map((sort) => usd(sum[sort] ?? 0))])
  const caps = (view.caps ?? []).map((cap) => `${cap.circuit}: ${usd(cap.left)} left of ${usd(cap.limit)}`)
  const expected = view.expected ? el('p', { class: 'quiet' }, view.expected.sentence) : null
  return [el('h3', null, 'Money'), table(['', ...SPEND], rows, [1, 2, 3, 4]), list(caps), expected]
}

function tasks(view) {
  if (!view.tasks?.length) return []
  const rows = view.tasks.map((task) => [
    task.id,
    task.title,
    task.stage,
    task.waits_for,
    usd(task.spent ?? 0),
  ])
  const found = view.tasks.flatMap((task) => (task.findings ?? []).map((line) => `${task.id}: ${line}`))
  return [
    el('h3', null, 'Tasks'),
    table(['task', 'title', 'stage', 'waits for', 'spent'], rows, [4]),
    found.length ? el('p', { class: 'quiet' }, 'Findings of the last reviews:') : null,
    list(found),
  ]
}

function running(view) {
  if (!view.running?.length) return []
  const rows = view.running.map((run) => [run.subject, run.op, run.route, run.ending ? 'is being ended' : ''])
  return [el('h3', null, 'Running'), table(['on', 'what', 'route', ''], rows)]
}

/** The one word of a project and its colour. */
const COLOURS = { active: 'busy', complete: 'good', halted: 'need', paused: 'need' }
function state({ error, view }) {
  if (view?.phase === 'untrusted') return ['not trusted', 'bad']
  if (error) return ['error', 'bad']
  if (!view) return ['starting', 'quiet']
  if (view.questions?.some((asked) => !asked.acknowledged)) return ['needs you', 'need']
  return [view.phase, COLOURS[view.phase] ?? 'quiet']
}

function card(project) {
  const [word, colour] = state(project)
  const view = project.view ?? {}
  const open = view.questions ?? []
  return el(
    'article',
    { class: 'card', id: `p-${project.id}` },
    el('header', null, el('h2', null, project.name), el('span', { class: `pill ${colour}` }, word)),
    el('p', { class: 'root' }, project.root),
    project.error ? el('p', { class: 'bad' }, project.error) : null,
    view.sentence && view.sentence !== project.error ? el('p', null, view.sentence) : null,
    distrust(view),
    open.length ? el('h3', null, open.length === 1 ? 'One question' : `${open.length} questions`) : null,
    open.map(question),
    running(view),
    tasks(view),
    money(view),
  )
}

/** What is wrong with the plugin as a whole. */
function notices({ engine, reports, registryError, enabled }) {
  const lines = [...reports]
  if (!engine.ok) lines.unshift(`Nothing runs: ${engine.detail}`)
  if (!enabled) lines.unshift('Ticking is switched off in the configuration (enabled: false).')
  if (registryError) lines.push(registryError)
  return lines.length ? [el('section', { class: 'card' }, el('h2', null, 'Configuration'), list(lines))] : []
}

let shown = ''

async function refresh() {
  const freshness = document.getElementById('freshness')
  try {
    const response = await fetch(PROJECTS, {
      headers: { accept: 'application/json' },
      credentials: 'same-origin',
    })
    if (!response.ok) throw new Error(`the server answered ${response.status}`)
    const text = await response.text()
    const { value } = JSON.parse(text)
    // Only a change is drawn, so that a selection or a scrolled table is not lost every 5 seconds.
    const { beats, ...rest } = value
    const now = JSON.stringify(rest)
    if (now !== shown) {
      document.getElementById('projects').replaceChildren(...notices(value), ...value.projects.map(card))
      shown = now
    }
    freshness.textContent = `${value.projects.length} projects, beat ${beats}`
  } catch (error) {
    freshness.textContent = `Not reachable: ${error.message}`
  } finally {
    setTimeout(refresh, REFRESH_MS)
  }
}

refresh()
