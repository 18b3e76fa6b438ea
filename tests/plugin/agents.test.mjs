// Agents of the real DSH as workers, with scripted models: a night in the plugin's own process, what a reader
// may not do, and every way in which an agent's run can end. Needs `cargo xtask dist` before.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { startModelServer } from '../fakes/model-server.mjs'
import { honest, roleOf } from '../workers/lib/answers.mjs'
import { Dsh, sampleRepository, until } from './lib/harness.mjs'

const PRICE = { input: 1, cacheRead: 0.1, output: 4 }
const worker = { backend: 'subagent:spawn', model: 'deepseek-v4-flash', price: PRICE }
const ROUTES = {
  plannerRoute: { backend: 'dsh-agent', model: 'deepseek-v4-pro', price: PRICE },
  reviewerRoute: { backend: 'subagent:fork', model: 'deepseek-v4-pro', price: PRICE },
  routing: Object.fromEntries(['T0', 'T1', 'T2', 'T3'].map((tier) => [tier, worker])),
}
let dsh
let nights = 0

before(async () => {
  dsh = await Dsh.withPlugin()
})
after(() => dsh?.end())

/** A project whose every route is an agent of the DSH that runs it. */
class Night {
  static async start(t, answer, routes = ROUTES) {
    const night = new Night()
    night.server = await startModelServer(answer)
    // Nobody answers: the port is closed.
    if (!answer) await night.server.close()
    night.root = join(dsh.box, `night-${++nights}`)
    night.git = await sampleRepository(night.root, dsh.env)
    // Settings of the worktree: none of them may reach a model.
    const skill = join(night.root, '.dsh', 'skills', 'bait')
    mkdirSync(skill, { recursive: true })
    writeFileSync(join(skill, 'SKILL.md'), '---\nname: bait\ndescription: BAIT of a skill\n---\nBAIT\n')
    writeFileSync(join(night.root, 'AGENTS.md'), 'BAIT of the instructions\n')
    await night.git('add', '.')
    await night.git('commit', '-qm', 'Settings')
    mkdirSync(join(night.root, '.devloop'))
    writeFileSync(join(night.root, '.devloop', 'GOAL.md'), '# Goal\n\nTwo files that greet.\n')
    night.config = { root: night.root, tickIntervalMs: 500, agentBackend: 'routed', ...routes }
    night.layer()
    await night.boot()
    t.after(() => night.end())
    return night
  }

  /** Writes the profile's layer; a running DSH takes it up. */
  layer(more = {}) {
    // JSON is YAML.
    const rows = [{ id: 'devloop', config: this.config, ...more }]
    writeFileSync(dsh.profileFile('cordis.patch.yml'), JSON.stringify(rows))
  }

  async boot() {
    Object.assign(dsh.env, { DEEPSEEK_BASE_URL: this.server.url, DEEPSEEK_API_KEY: 'key-of-dsh' })
    this.web = await dsh.web(dsh.box)
  }

  async end() {
    await this.web.stop()
    await this.server.close()
    writeFileSync(dsh.profileFile('cordis.patch.yml'), '[]')
  }

  async view() {
    const [project] = (await this.web.projects()).projects
    return project?.view ?? { error: project?.error }
  }

  /** Waits until the project's view is as `probe` wants it. */
  sees(what, probe) {
    return until(what, async () => {
      const value = await this.view()
      return { ok: probe(value), value: { value, calls: this.server.calls.map((call) => call.step) } }
    })
  }

  complete() {
    return this.sees('the goal is complete', (view) => view.phase === 'complete')
  }

  events(name) {
    const file = join(this.root, '.devloop', 'EVENTS.jsonl')
    const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
    const all = lines.flatMap((line) => JSON.parse(line).events ?? [])
    return name ? all.filter((event) => event[name]).map((event) => event[name]) : all
  }

  calls(role) {
    return this.server.calls.filter((call) => roleOf(call) === role)
  }
}

test('a night with every route on an agent of DSH ends merged, and every token is counted', async (t) => {
  const night = await Night.start(t, honest)
  await night.complete()
  const { stdout } = await night.git('ls-tree', '-r', '--name-only', 'work')
  assert.ok(stdout.includes('goodbye/said.txt') && stdout.includes('hello/said.txt'), stdout)
  assert.equal((await night.git('status', '--porcelain')).stdout, '')
  const { calls } = night.server
  const counts = ['plan', 'work', 'review'].map((role) => night.calls(role).length)
  assert.deepEqual([...counts, calls.length], [1, 4, 2, 7], 'no call besides those of the roles')
  assert.deepEqual(
    [...new Set(calls.map((call) => `${roleOf(call)} ${call.model}`))].sort(),
    ['plan deepseek-v4-pro', 'review deepseek-v4-pro', 'work deepseek-v4-flash'],
  )
  const tools = (role) => night.calls(role)[0].tools.toSorted()
  const reads = ['glob', 'grep', 'read', 'read_image', 'structured_output']
  for (const role of ['plan', 'review']) assert.deepEqual(tools(role), reads)
  assert.ok(tools('work').includes('write') && tools('work').includes('bash'))
  const extra = ['subagent', 'skill', 'ask_user_question', 'create_goal', 'workflow', 'send_message']
  assert.deepEqual(tools('work').filter((name) => extra.includes(name)), [])
  for (const call of calls) assert.doesNotMatch(JSON.stringify(call.body), /BAIT/)
  // 1000 x 1 + 200 x 0.1 + 40 x 4 millionths for each call.
  const settled = night.events('usage_settled')
  const spent = settled.map((event) => `${event.certainty} ${event.amount} ${event.tokens.output}`).sort()
  const one = 'priced 1180 40'
  assert.deepEqual(spent, [one, one, one, 'priced 2360 80', 'priced 2360 80'])
})

test('a reviewer that tries to write cannot, and the work is judged as it is', async (t) => {
  const said = []
  const answer = (call) => {
    if (roleOf(call) !== 'review' || call.turns > 0) {
      if (roleOf(call) === 'review') said.push(JSON.stringify(call.body.messages))
      return honest(call)
    }
    const write = { name: 'write', input: { file_path: join(night.root, 'evil.txt'), content: 'evil' } }
    const shell = { name: 'bash', input: { command: `echo evil > ${night.root}/evil.txt`, description: 'x' } }
    return { tools: [write, shell] }
  }
  const night = await Night.start(t, answer)
  await night.complete()
  assert.equal((await night.git('status', '--porcelain')).stdout, '')
  assert.ok(said.length > 0)
  for (const text of said) assert.match(text, /unknown tool|not available|not found/i)
})

/** Processes that carry the mark of a dispatch, as DSH hands it to the shells of its agents. */
function shells() {
  const marked = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').includes('DSH_DEVLOOP_DISPATCH=')
    } catch {
      // It ended, or is not ours to look at.
      return false
    }
  }
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && marked(name))
}

test('pause --now ends the agent and its shell, keeps its work, and a resume goes on', async (t) => {
  let sleep = true
  const asleep = { tools: [{ name: 'bash', input: { command: 'sleep 1000', description: 'wait' } }] }
  const answer = (call) =>
    roleOf(call) === 'work' && call.turns > 0 && sleep ? asleep : honest(call)
  const night = await Night.start(t, answer)
  await until('a shell of an agent runs', () => ({ ok: shells().length > 0 }))
  const { sessionId } = await night.web.call('session.create', { cwd: night.root })
  const args = (line) => ({ args: { agentId: sessionId, line, images: [] } })
  const type = (line) => night.web.call('commands/execute', args(line))
  await type('/devloop pause --now')
  await night.sees('nothing runs', (view) => view.phase === 'paused' && view.running?.length === 0)
  assert.deepEqual(shells(), [])
  // Its folder is put away after its lease has ended.
  await until('what the agent wrote is saved', async () => {
    const refs = (await night.git('for-each-ref', '--format=%(refname)', 'refs/devloop')).stdout
    return { ok: /refs\/devloop\//.test(refs), value: refs }
  })
  sleep = false
  await type('/devloop resume')
  await night.complete()
  assert.ok(night.web.running)
})

const error = (status, message, type = 'error') => ({
  status,
  body: { error: { message, type, code: type } },
})
const limit = { ...error(429, 'Rate limit reached') }
const MINUTE = 60_000
/** What the provider answers, and the end: `open` is the task's; minutes are how long the route waits. */
const FAULTS = {
  'dsh-agent: out of credit': [error(402, 'Insufficient Balance'), 'closed'],
  'dsh-agent: login expired': [error(401, 'Authentication Fails', 'authentication_error'), 'closed'],
  'dsh-agent: limit with its reset': [{ ...limit, headers: { 'retry-after': '7200' } }, 120],
  'dsh-agent: limit without a reset': [limit, 15],
  'dsh-agent: unavailable': [error(503, 'Service is too busy'), 15],
  'dsh-agent: network down': [undefined, 15],
  'dsh-agent: context too long': [
    error(400, "This model's maximum context length is 131072 tokens."),
    'open',
  ],
  'dsh-agent: output limit': [{ text: 'half', stop: 'length' }, 'open'],
  'dsh-agent: content refused': [{ text: '', stop: 'content_filter' }, 'open'],
}
for (const [name, [answer, end]] of Object.entries(FAULTS)) {
  test(name, async (t) => {
    const before = Date.now()
    const night = await Night.start(t, answer && (() => answer))
    await until('the run has ended', async () => {
      const value = night.events()
      return { ok: value.some((event) => event.lease_ended), value }
    })
    const [gate] = night.events('route_gated').map((event) => event.gate)
    const seen = JSON.stringify(night.events())
    const at = gate?.closed_until?.at
    if (typeof end === 'number') {
      assert.ok(at >= before + end * MINUTE && at <= Date.now() + (end + 1) * MINUTE, seen)
    } else assert.equal(gate, end === 'closed' ? 'closed' : undefined, seen)
  })
}

test('a reload and a death during a dispatch cost nothing but the time', async (t) => {
  let hang = true
  const answer = (call) =>
    roleOf(call) === 'work' && call.turns > 0 && hang ? { hang: true } : honest(call)
  const night = await Night.start(t, answer)
  const hangs = (from) => () => {
    const calls = night.server.calls.slice(from)
    return { ok: calls.some((call) => call.step?.hang), value: calls.map((call) => call.step) }
  }
  await until('an agent has written and hangs', hangs(0))
  const loaded = async () => (await night.web.get('/devloop/api/projects')).body.startsWith('{"ok":true')
  night.layer({ disabled: true })
  await until('the plugin is gone', async () => ({ ok: !(await loaded()) }))
  const before = night.server.calls.length
  // A host that is busy unloading does not see every edit of its layer.
  let looks = 0
  await until('the plugin is back', async () => {
    if (looks++ % 30 === 0) night.layer()
    return { ok: await loaded() }
  })
  await until('an agent hangs again', hangs(before))
  const assumed = () => night.events('usage_settled').filter((event) => event.certainty === 'assumed').length
  const known = assumed()
  night.web.child.kill('SIGKILL')
  await night.web.exited
  hang = false
  await night.boot()
  await night.complete()
  assert.ok(assumed() > known, 'an agent that died with its host is settled as an orphan')
  const refs = (await night.git('for-each-ref', '--format=%(refname)', 'refs/devloop/orphan')).stdout
  assert.match(refs, /refs\/devloop\/orphan\//, 'what the dead agent wrote is saved')
  const { stdout } = await night.git('worktree', 'list', '--porcelain')
  assert.equal(stdout.match(/^worktree /gm).length, 1)
})
