// The addon by itself in Node: it judges configurations, takes a project once, answers nonsense with errors.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { loadNative } from '../../npm/dsh-devloop/lib/native.js'
import { repository, sampleRepository, snapshot, until } from './lib/harness.mjs'

const box = mkdtempSync(join(tmpdir(), 'devloop-addon-'))
const root = join(box, 'project')
let native
const opened = []

before(async () => {
  const loaded = loadNative()
  assert.ok(loaded.ok, loaded.error)
  native = loaded.module
  await sampleRepository(root, { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' })
})
after(async () => {
  await Promise.all(opened.map((supervisor) => supervisor.close()))
  rmSync(box, { recursive: true, force: true })
})

function supervise(options = {}, notify = () => undefined) {
  const given = { root, dshHome: join(box, 'dsh'), config: '{}', ...options }
  const supervisor = new native.Supervisor(JSON.stringify(given), notify)
  opened.push(supervisor)
  return supervisor
}

test('a configuration is repaired and every fault is named', () => {
  const judge = (config) => JSON.parse(native.readConfig(JSON.stringify(config)))
  const { root: none, ...defaults } = judge({})
  assert.deepEqual(defaults, { enabled: true, tickIntervalMs: 2000, reports: [] })
  assert.equal(none, null)
  assert.equal(judge({ tickIntervalMs: 500 }).tickIntervalMs, 500)
  for (const [config, says] of [
    [{ tickIntervalMs: 499 }, /tickIntervalMs: must be a whole number from 500/],
    [{ tickIntervalMs: 'often' }, /tickIntervalMs/],
    [{ tickIntervalMS: 1 }, /tickIntervalMS: unknown key; did you mean tickIntervalMs\?/],
    [{ agentBacknd: 'noop' }, /did you mean agentBackend\?/],
    [
      { budget: { maxTaskAttempt: 1 } },
      /budget\.maxTaskAttempt: unknown key; did you mean maxTaskAttempts\?/,
    ],
    [{ enabled: 'no' }, /enabled: must be true or false/],
    [{ root: 7 }, /root/],
    ['words', /must be an object/],
    [[1], /must be an object/],
  ]) {
    const judged = judge(config)
    assert.match(judged.reports.join('\n'), says, JSON.stringify(config))
    assert.ok(judged.tickIntervalMs >= 500 && judged.enabled)
  }
  assert.match(JSON.parse(native.readConfig('{')).reports.join(), /config/)
})

test('every key of the template is known', () => {
  const template = readFileSync(join(repository, 'templates/cordis.patch.yml'), 'utf8')
  const names = (pattern) => [...template.matchAll(pattern)].map(([, key]) => [key, null])
  const top = names(/^ {4}(?:# )?([A-Za-z]+):/gm)
  const budget = names(/^ {4}# {3}((?:max|task|no|disk)[A-Za-z]+):/gm)
  assert.ok(top.length > 10 && budget.length > 15)
  const config = { ...Object.fromEntries(top), budget: Object.fromEntries(budget) }
  assert.deepEqual(JSON.parse(native.readConfig(JSON.stringify(config))).reports, [])
})

test('nonsense is an exception or a rejection, never the end of the process', async () => {
  for (const options of ['', '{', 'null', '{}', '{"root":1}']) {
    assert.throws(() => new native.Supervisor(options, () => undefined), Error, options)
  }
  assert.throws(() => new native.Supervisor('{}'), Error)
  const nowhere = supervise({ root: join(box, 'nowhere') })
  await assert.rejects(nowhere.tick(), /nowhere/)
  assert.equal(nowhere.view(), 'null')
})

test('an unarmed folder is left alone, and taken up when it is armed', async () => {
  const before = snapshot(root)
  const supervisor = supervise()
  assert.equal(await supervisor.tick(), 'null')
  assert.equal(JSON.parse(supervisor.view()).phase, 'unarmed')
  await assert.rejects(supervisor.command('{"by":"test","wish":{"pause":{"now":false}}}'), /not armed/)
  mkdirSync(join(root, '.devloop'))
  assert.equal(await supervisor.tick(), 'null', 'a bare folder does not arm')
  rmSync(join(root, '.devloop'), { recursive: true })
  assert.deepEqual(snapshot(root), before)
  mkdirSync(join(root, '.devloop'))
  writeFileSync(join(root, '.devloop', 'GOAL.md'), '# Goal\n\nAnything.\n')
  const report = JSON.parse(await supervisor.tick())
  assert.equal(typeof report.revision, 'number')
  assert.equal(JSON.parse(supervisor.view()).phase, 'active')
})

test('one supervisor per project: the second is told who holds it, and gets it after a close', async () => {
  const second = supervise()
  await assert.rejects(second.tick(), new RegExp(String(process.pid)))
  const holder = opened.find((supervisor) => JSON.parse(supervisor.view())?.phase === 'active')
  const wish = (text) => second.command(JSON.stringify({ by: 'test', wish: text }))
  await holder.close()
  await assert.rejects(holder.tick(), /closed/)
  assert.equal(typeof JSON.parse(await second.tick()).revision, 'number')
  const paused = JSON.parse(await wish({ pause: { now: false } }))
  assert.equal(paused.accepted, true)
  assert.equal(JSON.parse(second.view()).phase, 'paused')
  await assert.rejects(wish({ dance: {} }), /no command/)
  assert.equal(JSON.parse(await wish({ resume: { task: null, reset_cost: false } })).accepted, true)
  await second.close()
})

test('a state that is not believed is shown as that, is kept, and comes back mended', async () => {
  const file = join(root, '.devloop', 'STATE.json')
  const good = readFileSync(file, 'utf8')
  const bad = good.replace('"number":1', '"number":7')
  assert.notEqual(bad, good)
  for (const [text, reason] of [
    [bad, 'invalid_state'],
    [good.replace('"version":2', '"version":99'), 'newer_state'],
  ]) {
    writeFileSync(file, text)
    const seen = () => snapshot(join(root, '.devloop'), (path) => ['OWNER', 'LOCK'].includes(path))
    const before = seen()
    const supervisor = supervise()
    await assert.rejects(supervisor.tick(), /STATE\.json/)
    const view = JSON.parse(supervisor.view())
    assert.deepEqual([view.phase, view.reason], ['untrusted', reason])
    assert.match(view.sentence, /STATE\.json/)
    assert.ok(view.question.endsWith('?') && view.passes_by_itself === false)
    assert.ok(view.by_hand.length > 1 && view.by_hand[0].endsWith(`doctor ${root}`), view.by_hand.join('\n'))
    assert.deepEqual(seen(), before)
    writeFileSync(file, good)
    assert.equal(typeof JSON.parse(await supervisor.tick()).revision, 'number')
    assert.equal(JSON.parse(supervisor.view()).phase, 'active')
    await supervisor.close()
  }
})

test('a finished dispatch wakes the loop before the next beat', async () => {
  const script = join(root, '.devloop', 'night.json')
  const plan = { role: 'plan', result: { end: 'none' }, delayMs: 50 }
  writeFileSync(script, JSON.stringify({ version: 1, rules: [plan] }))
  const messages = []
  const config = JSON.stringify({ agentBackend: 'scripted', scripted: { script } })
  const supervisor = supervise({ config }, (message) => messages.push(message))
  await until('a plan is dispatched', async () => {
    await supervisor.tick()
    const { running } = JSON.parse(supervisor.view())
    return { ok: running.length > 0 || messages.length > 0, value: running }
  })
  await until('the callback is called', async () => ({ ok: messages.length > 0, value: messages }))
  assert.ok(messages.every((message) => message === '{"kind":"wake"}'))
  await supervisor.close()
})
