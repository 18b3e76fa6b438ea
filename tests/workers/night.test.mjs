// Whole nights with the real command lines against scripted models on this machine: codex plans, DSH works,
// claude reviews. It asserts what is in the repository, the journal and the process table, not what was said.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { startModelServer } from '../fakes/model-server.mjs'
import { honest, roleOf, work } from './lib/answers.mjs'
import { Bench, howToRun, install } from './lib/bench.mjs'

const clis = await install()
const options = howToRun(clis)

/** Neither codex nor DSH knows a price, so the routes do: dollars for a million tokens. */
const price = { input: 1, cacheRead: 0.1, output: 4 }
const ROUTES = {
  plannerRoute: { backend: 'codex', model: 'gpt-5.5', price },
  reviewerRoute: { backend: 'claude', model: 'sonnet' },
  routing: Object.fromEntries(
    ['T0', 'T1', 'T2', 'T3'].map((tier) => [tier, { backend: 'dsh', model: 'deepseek-flash', price }]),
  ),
}

async function bench(t, answer, routes = ROUTES) {
  const server = await startModelServer(answer)
  const made = new Bench(clis, server)
  t.after(() => made.end())
  await made.arm(routes)
  return made
}

/** What the target holds beside these paths. */
async function made(night, beside) {
  const { stdout } = await night.git('ls-tree', '-r', '--name-only', 'work')
  return stdout.trim().split('\n').filter((path) => !beside.includes(path)).sort()
}

/** The calls that a setting of the worktree got into. */
function whoHeard(night) {
  const heard = night.server.calls.filter((call) => JSON.stringify(call.body).includes('BAIT'))
  return heard.map((call) => `${call.dialect} ${roleOf(call)}`)
}

test('codex plans, DSH works, claude reviews, and the target holds it all', options, async (t) => {
  const night = await bench(t, honest)
  const bait = await night.bait()
  const { code, output } = await night.loop().ended
  const status = await night.status()
  assert.equal(status.phase, 'complete', `${code} ${output}\n${JSON.stringify(status, null, 1)}`)
  assert.deepEqual(await made(night, bait), ['README.md', 'goodbye/said.txt', 'hello/said.txt'])
  assert.deepEqual(whoHeard(night), [])
  const who = (dialect) => night.server.calls.filter((call) => call.dialect === dialect && !call.side)
  assert.ok(who('responses').every((call) => roleOf(call) === 'plan'))
  assert.ok(who('anthropic').every((call) => roleOf(call) === 'review'))
  assert.deepEqual(
    [who('responses').length, who('chat').length, who('anthropic').length],
    [1, 4, 2],
    'one plan, two tasks of two calls, two reviews',
  )
  // Each saw its own key and no other.
  assert.equal(who('responses')[0].headers.authorization, 'Bearer key-of-codex')
  assert.equal(who('chat')[0].headers.authorization, 'Bearer key-of-dsh')
  assert.equal(who('anthropic')[0].headers['x-api-key'], 'key-of-claude')
  assert.ok(!who('anthropic')[0].tools.some((tool) => ['Write', 'Edit', 'Bash'].includes(tool)))
  const settled = night.events().filter((event) => event.usage_settled).map((event) => event.usage_settled)
  const tokens = settled.map((event) => event.tokens.output).sort((a, b) => a - b)
  assert.deepEqual(tokens, [40, 40, 40, 80, 80], JSON.stringify(settled))
  // 1000 x 1 + 200 x 0.1 + 40 x 4 millionths a call; claude says 2420 by its own list.
  const spent = settled.map((event) => `${event.certainty} ${event.amount}`).sort()
  const expected = ['measured 2420', 'measured 2420', 'priced 1180', 'priced 2360', 'priced 2360']
  assert.deepEqual(spent, expected)
  assert.deepEqual([night.workers(), night.leftovers()], [[], []])
})

test('DSH plans, works and reviews, and every token of it is counted', options, async (t) => {
  const route = (model) => ({ backend: 'dsh', model, price })
  const tiers = Object.fromEntries(['T0', 'T1', 'T2', 'T3'].map((tier) => [tier, route('deepseek-flash')]))
  const judge = route('deepseek-pro')
  const routes = { plannerRoute: judge, reviewerRoute: judge, routing: tiers }
  const night = await bench(t, honest, routes)
  const bait = await night.bait()
  const { code, output } = await night.loop().ended
  const status = await night.status()
  assert.equal(status.phase, 'complete', `${code} ${output}\n${JSON.stringify(status, null, 1)}`)
  assert.deepEqual(await made(night, bait), ['README.md', 'goodbye/said.txt', 'hello/said.txt'])
  assert.deepEqual(whoHeard(night), [])
  const asked = night.server.calls.map((call) => `${roleOf(call)} ${call.model}`).sort()
  const [plan, review, work] = ['plan deepseek-pro', 'review deepseek-pro', 'work deepseek-flash']
  assert.deepEqual(asked, [plan, review, review, work, work, work, work])
  const settled = night.events().filter((event) => event.usage_settled).map((event) => event.usage_settled)
  const spent = settled.map((event) => `${event.certainty} ${event.amount}`).sort()
  assert.deepEqual(spent, ['priced 1180', 'priced 1180', 'priced 1180', 'priced 2360', 'priced 2360'])
  assert.deepEqual([night.workers(), night.leftovers()], [[], []])
})

test('nothing of a DSH worker stays behind in the background', options, async (t) => {
  const denied = 'nothing may stay behind in the background of this run'
  const input = { command: 'touch stayed', description: 'stay', run_in_background: true }
  const answer = (call) => {
    if (call.side || roleOf(call) !== 'work') return honest(call)
    if (call.turns === 0) return { tools: [{ name: 'bash', input }] }
    return work({ ...call, turns: call.turns - 1 })
  }
  const night = await bench(t, answer)
  const { code, output } = await night.loop().ended
  const status = await night.status()
  assert.equal(status.phase, 'complete', `${code} ${output}\n${JSON.stringify(status, null, 1)}`)
  assert.ok(night.server.calls.some((call) => JSON.stringify(call.body).includes(denied)))
  assert.deepEqual(await made(night, []), ['README.md', 'goodbye/said.txt', 'hello/said.txt'])
  assert.deepEqual([night.workers(), night.leftovers()], [[], []])
})

/** Nobody's fault: the route waits, and no attempt is charged. */
const CLOSED_PORTS = {
  'dsh: network down': 'deepseek-flash',
  'codex: network down': 'gpt-5.5',
  'claude: network down': 'sonnet',
}
for (const [name, model] of Object.entries(CLOSED_PORTS)) {
  test(name, options, async (t) => {
    const backend = name.split(':')[0]
    const budget = { taskTimeoutMinutes: 1 }
    const night = await bench(t, honest, { ...ROUTES, plannerRoute: { backend, model }, budget })
    await night.server.close()
    const { output } = await night.loop(['tick']).ended
    await night.loop(['tick']).ended
    const events = night.events()
    const gates = events.filter((event) => event.route_gated).map((event) => event.route_gated.gate)
    assert.match(JSON.stringify(gates), /until/i, `${output}\n${JSON.stringify(events)}`)
    assert.ok(events.some((event) => event.attempt_returned), 'no attempt is charged')
    assert.deepEqual(night.workers(), [])
  })
}

/** What the provider answers, and what must become of the route that asked. */
const error = (status, message, type = 'error') => ({
  status,
  body: { type: 'error', error: { message, type, code: type } },
})
const limit = (message, headers) => ({ ...error(429, message, 'rate_limit_error'), headers })
const MINUTE = 60_000
/** `open`: the task's; `free`: the same, and nothing was used; minutes: the route waits as long. */
const FAULTS = {
  'claude: out of credit': [error(400, 'Your credit balance is too low'), 'closed'],
  'claude: login expired': [error(401, 'invalid x-api-key', 'authentication_error'), 'closed'],
  'claude: limit with its reset': [limit('You hit your limit, it resets in 2 hours'), 120],
  'claude: limit without a reset': [limit('This request would exceed your rate limit'), 15],
  'claude: overloaded': [error(529, 'Overloaded', 'overloaded_error'), 15],
  'claude: unavailable': [error(503, 'Service unavailable', 'api_error'), 15],
  'claude: context too long': [error(400, 'prompt is too long: 250000 tokens > 200000 maximum'), 'free'],
  'claude: output limit': [{ text: 'half', stop: 'max_tokens' }, 'open'],
  'claude: content refused': [{ text: '', stop: 'refusal' }, 'open'],
  'codex: out of credit': [error(429, 'You exceeded your current quota', 'insufficient_quota'), 'closed'],
  'codex: login expired': [error(401, 'Incorrect API key provided', 'invalid_api_key'), 'closed'],
  'codex: limit without a reset': [error(429, 'Rate limit reached', 'rate_limit_exceeded'), 15],
  'codex: unavailable': [error(503, 'overloaded', 'server_error'), 15],
  'codex: context too long': [{ failed: { code: 'context_length_exceeded', message: 'too long' } }, 'open'],
  'codex: output limit': [{ text: 'half', stop: 'max_output_tokens' }, 'open'],
  'codex: content refused': [{ text: 'half', stop: 'content_filter' }, 'open'],
  'dsh: out of credit': [error(402, 'Insufficient Balance'), 'closed'],
  'dsh: login expired': [error(401, 'Authentication Fails', 'authentication_error'), 'closed'],
  'dsh: limit without a reset': [limit('Rate limit reached'), 15],
  'dsh: unavailable': [error(503, 'Service is too busy'), 15],
  'dsh: context too long': [error(400, "This model's maximum context length is 131072 tokens."), 'open'],
  'dsh: output limit': [{ text: 'half', stop: 'length' }, 'open'],
  'dsh: content refused': [{ text: '', stop: 'content_filter' }, 'open'],
}

for (const [name, [answer, end]] of Object.entries(FAULTS)) {
  test(name, options, async (t) => {
    const backend = name.split(':')[0]
    const model = { claude: 'sonnet', codex: 'gpt-5.5', dsh: 'deepseek-flash' }[backend]
    const routes = { ...ROUTES, plannerRoute: { backend, model } }
    const night = await bench(t, () => answer, routes)
    const before = Date.now()
    const { output } = await night.loop(['tick']).ended
    await night.loop(['tick']).ended
    const events = night.events()
    const seen = `${output}\n${JSON.stringify(events)}`
    const [gate] = events.filter((event) => event.route_gated).map((event) => event.route_gated.gate)
    const until = gate?.closed_until?.at
    if (typeof end === 'number') {
      assert.ok(until >= before + end * MINUTE && until <= Date.now() + (end + 1) * MINUTE, seen)
    } else assert.equal(gate, end === 'closed' ? 'closed' : undefined, seen)
    const charged = !events.some((event) => event.attempt_returned)
    assert.equal(charged, end === 'open', `an attempt is charged only where a model worked: ${seen}`)
    assert.deepEqual(night.workers(), [])
  })
}

test('claude dies with the loop that started it, and the next one finishes', options, async (t) => {
  let hang = true
  let asked
  const heard = new Promise((settle) => {
    asked = settle
  })
  const answer = (call) => {
    if (!hang || roleOf(call) !== 'work') return honest(call)
    asked()
    return { hang: true }
  }
  const worker = { backend: 'claude', model: 'haiku' }
  const tiers = Object.fromEntries(['T0', 'T1', 'T2', 'T3'].map((tier) => [tier, worker]))
  const night = await bench(t, answer, { ...ROUTES, routing: tiers })
  const first = night.loop()
  await Promise.race([heard, first.ended.then(({ output }) => assert.fail(`it ended early: ${output}`))])
  assert.ok(night.workers().length > 0, 'it works now')
  first.child.kill('SIGKILL')
  await first.ended
  // The kernel ends the command line with its loop, whether or not another loop ever comes.
  await night.emptied()
  hang = false
  const { output } = await night.loop().ended
  const status = await night.status()
  assert.equal(status.phase, 'complete', `${output}\n${JSON.stringify(status, null, 1)}`)
  assert.deepEqual([night.workers(), night.leftovers()], [[], []])
  const { stdout } = await night.git('worktree', 'list', '--porcelain')
  assert.equal(stdout.match(/^worktree /gm).length, 1)
  const said = readFileSync(join(night.root, 'hello/said.txt'), 'utf8')
  assert.equal(said, 'hello\n')
})
