// A night in which an agent that speaks the agent client protocol works: qwen and opencode, each against the
// scripted models of this machine. It asserts what is in the repository.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { startModelServer } from '../fakes/model-server.mjs'
import { honest, roleOf } from './lib/answers.mjs'
import { Bench, howToRun, install } from './lib/bench.mjs'

const clis = await install()
const options = howToRun(clis)

/** How each is told of the model server; the loop hands on the variables that the configuration names. */
const AGENTS = {
  qwen: (bench) => ({
    argv: [clis.qwen, '--acp'],
    vars: { OPENAI_API_KEY: 'key-of-qwen', OPENAI_BASE_URL: `${bench.server.url}/v1`, OPENAI_MODEL: 'm' },
  }),
  opencode: (bench) => {
    const file = join(bench.box, 'opencode.json')
    const provider = {
      npm: '@ai-sdk/openai-compatible',
      options: { baseURL: `${bench.server.url}/v1`, apiKey: 'key-of-opencode' },
      models: { m: {} },
    }
    writeFileSync(file, JSON.stringify({ model: 'here/m', provider: { here: provider } }))
    return { argv: [clis.opencode, 'acp'], vars: { OPENCODE_CONFIG: file } }
  },
}

for (const [name, agent] of Object.entries(AGENTS)) {
  test(`${name} works over the agent client protocol`, options, async (t) => {
    const server = await startModelServer(honest)
    const bench = new Bench(clis, server)
    t.after(() => bench.end())
    const { argv, vars } = agent(bench)
    Object.assign(bench.env, vars)
    const worker = { backend: 'acp', provider: name, model: 'm', price: { input: 1, output: 4 } }
    await bench.arm({
      plannerRoute: { backend: 'claude', model: 'opus' },
      reviewerRoute: { backend: 'claude', model: 'sonnet' },
      routing: Object.fromEntries(['T0', 'T1', 'T2', 'T3'].map((tier) => [tier, worker])),
      acp: { argv, env: Object.keys(vars) },
      budget: { maxCostUsdPerSession: 20 },
    })
    const { output } = await bench.loop().ended
    const status = await bench.status()
    const asked = server.calls.map((call) => `${call.dialect} ${roleOf(call)} ${call.tools.join(' ')}`)
    const seen = [output, JSON.stringify(status, null, 1), ...asked].join('\n')
    assert.equal(status.phase, 'complete', seen)
    const { stdout } = await bench.git('ls-tree', '-r', '--name-only', 'work')
    assert.deepEqual(stdout.trim().split('\n').sort(), ['README.md', 'goodbye/said.txt', 'hello/said.txt'])
    assert.deepEqual([bench.workers(), bench.leftovers()], [[], []])
  })
}
