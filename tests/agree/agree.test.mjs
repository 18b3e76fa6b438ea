// The same inputs give the same bytes: what the native core recorded is decided again by the component inside
// the addon and by the page's build, both in Node. `cargo xtask test --only agree` makes all three.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { runInThisContext } from 'node:vm'
import { loadNative } from '../../npm/dsh-devloop/lib/native.js'

const { DEVLOOP_CORPUS: corpus, DEVLOOP_PAGE: folder } = process.env
assert.ok(corpus && folder, 'run `cargo xtask test --only agree`')

const recordings = readFileSync(corpus, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line))
const loaded = loadNative()
assert.ok(loaded.ok, loaded.error)
// A plain script, as a document carries it: it declares one name for all scripts.
const page = runInThisContext(`${readFileSync(join(folder, 'devloop_web.js'), 'utf8')}\nwasm_bindgen`)
page.initSync({ module: readFileSync(join(folder, 'devloop_web_bg.wasm')) })

/** What the addon's component makes of a recording: its answers, or the refusal of the documents. */
async function inAddon({ state, policy, steps }) {
  const inputs = JSON.stringify(steps.map((step) => step.input))
  return JSON.parse(await loaded.module.replay(state, policy, inputs))
}

/** What the page makes of it. Everything it refuses it throws as a text. */
async function inPage({ state, policy, steps }) {
  const loop = new page.Replay(state, policy)
  try {
    return steps.map(({ input }) => {
      const answer = { decision: null, refused: null, digest: null }
      try {
        answer.decision = loop.decide(input)
      } catch (refusal) {
        answer.refused = refusal
      }
      answer.digest = loop.digest()
      return answer
    })
  } finally {
    loop.free()
  }
}

for (const [name, decide] of [
  ['the component in the addon', inAddon],
  ['the page', inPage],
]) {
  test(`${name} decides every recording exactly so`, async () => {
    let compared = 0
    for (const recording of recordings.filter((one) => one.refused === null)) {
      const answers = await decide(recording)
      assert.equal(answers.length, recording.steps.length, recording.name)
      for (const [at, { input, ...expected }] of recording.steps.entries()) {
        assert.deepEqual(answers[at], expected, `${recording.name}, step ${at}: ${input}`)
        compared++
      }
    }
    assert.ok(compared > 2_000, `only ${compared} steps`)
  })

  test(`${name} refuses the same documents with the same sentence`, async () => {
    const refused = recordings.filter((one) => one.refused !== null)
    assert.ok(refused.length > 5)
    for (const recording of refused) {
      await assert.rejects(decide(recording), (refusal) => {
        const said = typeof refusal === 'string' ? refusal : refusal.message
        assert.ok(said.endsWith(recording.refused), `${recording.name}: ${said}, not ${recording.refused}`)
        return true
      })
    }
  })
}

test('the recordings got somewhere', () => {
  const decisions = recordings.flatMap(({ steps }) => steps.map((step) => step.decision ?? ''))
  const saying = (text) => decisions.filter((decision) => decision.includes(text)).length
  const wanted = [
    ['"merged"', 20],
    ['"hold_opened"', 50],
    ['"answer_given"', 20],
    ['__proto__', 5],
  ]
  for (const [text, least] of wanted) {
    assert.ok(saying(text) >= least, `${text} in ${saying(text)} decisions only`)
  }
})
