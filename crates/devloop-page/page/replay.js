// The page of a recorded night: unpacks the core and the recording that stand in it, lets the core decide the
// night again under other limits, and shows both. Every text of a recording becomes a text node, never
// markup.
'use strict'

const at = (id) => document.getElementById(id)

/** An element with attributes and children; strings become text nodes, empty children are left out. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value)
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''))
  return node
}

const utc = (ms) => new Date(ms).toISOString().replace('T', ' ').slice(0, 19) + ' UTC'

/** What stands in an element, base64 over gzip, as bytes. */
async function unpacked(id) {
  const packed = Uint8Array.from(atob(at(id).textContent.trim()), (c) => c.charCodeAt(0))
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

/** A table of rows; a row whose last two cells differ is marked. */
function table(heads, rows) {
  const cells = (tag, texts) => texts.map((text) => el(tag, null, String(text ?? '')))
  const row = (texts) =>
    el('tr', texts.at(-1) === texts.at(-2) ? null : { class: 'differs' }, cells('td', texts))
  const head = el('thead', null, el('tr', null, cells('th', heads)))
  return el('div', { class: 'scroll' }, el('table', null, head, el('tbody', null, rows.map(row))))
}

const list = (lines) => el('ul', null, lines.map((line) => el('li', null, line)))

function comparison({ answer, table: [heads, ...figures], notes }) {
  const { recorded, what_if: other, parting, rule } = answer
  const tasks = [...new Set([...Object.keys(recorded.stages), ...Object.keys(other.stages)])]
  const stage = (figures, id) => figures.stages[id] ?? 'not planned'
  const stages = tasks.map((id) => [id, stage(recorded, id), stage(other, id)])
  const first = parting && [
    el('h3', null, `First difference: the line that leads to revision ${parting.revision}`),
    list([
      `recorded: ${parting.recorded ?? 'the night was over'}`,
      `what if: ${parting.what_if ?? 'the night is over'}`,
    ]),
  ]
  return [
    table(heads, figures),
    parting ? null : el('p', null, 'Nothing differs.'),
    first,
    el('h3', null, 'Tasks at the end'),
    table(['task', 'recorded', 'what if'], stages),
    el('h3', null, 'How it was drawn'),
    list(notes),
    el('details', null, el('summary', null, 'The rule'), list(rule)),
  ].flat()
}

function frame(shown) {
  if (!shown) return [el('p', null, 'This night has no line.')]
  const spent = `${shown.spent} spent, ${shown.reserved} set aside`
  const stages = Object.entries(shown.stages)
  return [
    el('p', { class: 'quiet' }, `${utc(shown.at)}, revision ${shown.revision}, ${spent}`),
    el('p', null, shown.sentence),
    shown.open.length ? el('p', { class: 'need' }, `Asked: ${shown.open.join(', ')}`) : null,
    stages.length
      ? el('div', { class: 'scroll' }, el('table', null, el('tbody', null, stages.map(([id, stage]) =>
          el('tr', null, el('td', null, id), el('td', null, stage))))))
      : el('p', { class: 'quiet' }, 'No task yet.'),
  ].filter(Boolean)
}

/** The keys of a configuration that the form asks for: only what was changed. */
function overlay(recorded) {
  const budget = {}
  for (const input of at('fields').querySelectorAll('input')) {
    const was = recorded[input.name] === undefined ? '' : String(recorded[input.name])
    // An emptied cap is one that is off.
    if (input.value !== was) budget[input.name] = input.value === '' ? null : Number(input.value)
  }
  const text = at('keys').value.trim()
  const more = text ? JSON.parse(text) : {}
  const all = 'maxCostUsdPerDayAllProjects'
  const top = all in budget ? { [all]: budget[all] } : {}
  delete budget[all]
  return JSON.stringify({ ...top, ...more, budget: { ...budget, ...more.budget } })
}

/** Caps that are off in the recorded night and can be set. */
const OFF = ['maxCostUsdPerGoal', 'maxCostUsdPerTask']

function fields(recorded) {
  const keys = [...new Set([...OFF, ...Object.keys(recorded)])]
  return keys.map((key) => {
    const value = recorded[key] ?? ''
    const kind = { type: 'number', min: '0', step: 'any', placeholder: 'off' }
    const input = { id: `limit-${key}`, name: key, value, ...kind }
    return el('label', { for: input.id }, key, el('input', input))
  })
}

async function start() {
  const [core, recording] = [await unpacked('core'), new TextDecoder().decode(await unpacked('recording'))]
  wasm_bindgen.initSync({ module: core })
  let found = JSON.parse(wasm_bindgen.nights(recording, '{}'))
  const recorded = JSON.parse(found.budget)
  at('fields').replaceChildren(...fields(recorded))
  const line = at('line')

  function show() {
    const night = document.querySelector('input[name=night]:checked').value
    const frames = found[night]
    line.max = String(Math.max(frames.length - 1, 0))
    at('place').textContent = `${frames.length ? Number(line.value) + 1 : 0} of ${frames.length}`
    at('frame').replaceChildren(...frame(frames[Number(line.value)]))
  }

  function decide(keys) {
    at('refused').textContent = ''
    try {
      found = JSON.parse(wasm_bindgen.nights(recording, keys()))
      at('comparison').replaceChildren(...comparison(found).filter(Boolean))
      show()
    } catch (error) {
      at('refused').textContent = String(error instanceof Error ? error.message : error)
    }
  }

  at('limits').addEventListener('submit', (event) => {
    event.preventDefault()
    decide(() => overlay(recorded))
  })
  // The fields have their recorded values again only after the event.
  at('limits').addEventListener('reset', () => setTimeout(() => decide(() => '{}')))
  line.addEventListener('input', show)
  at('which').addEventListener('change', () => {
    line.value = '0'
    show()
  })
  const { goal, covers, from_the_start: whole } = found.answer
  const gap = whole ? '' : '; its start is in no trace any more'
  at('covers').textContent =
    `Goal ${goal}, revisions ${covers[0]} to ${covers[1]}${gap}`
  decide(() => '{}')
}

start().catch((error) => {
  at('covers').textContent = `This recording cannot be shown: ${error?.message ?? error}`
})
