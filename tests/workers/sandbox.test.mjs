// The real command lines under the sandbox: each is told by its model to work where it may and to reach where
// it may not, with its own fences taken down by the operator. It asserts what the kernel let through.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

import { startModelServer } from '../fakes/model-server.mjs'
import { honest, roleOf, taskOf } from './lib/answers.mjs'
import { Bench, howToRun, install } from './lib/bench.mjs'

/** The third version of Landlock came with Linux 6.2. */
const [major, minor] = readFileSync('/proc/sys/kernel/osrelease', 'utf8').split('.').map(Number)
const hasLandlock = major > 6 || (major === 6 && minor >= 2)
if (!hasLandlock) console.log('skipped: this kernel has no Landlock of version 3')

const clis = await install()
const options = howToRun(clis)
const price = { input: 1, cacheRead: 0.1, output: 4 }
const route = (backend, model) => ({ backend, model, price })
const everyTier = (place) => Object.fromEntries(['T0', 'T1', 'T2', 'T3'].map((tier) => [tier, place]))

/** What a program names its shell, how the command is given to it, and how its own fence is taken down. */
const WORKERS = [
  {
    route: { backend: 'claude', model: 'sonnet' },
    shell: 'Bash',
    word: 'command',
    loose: { args: ['--permission-mode', 'bypassPermissions'], env: ['IS_SANDBOX'] },
  },
  {
    route: route('codex', 'gpt-5.5'),
    shell: 'exec_command',
    word: 'cmd',
    loose: { args: ['--dangerously-bypass-approvals-and-sandbox'] },
  },
  { route: route('dsh', 'deepseek-flash'), shell: 'bash', word: 'command', loose: {} },
]

/** Writes inside, then reaches out: each attempt says in the file whether it came through. */
function reach(night, id) {
  const said = `${id}/said.txt`
  const attempts = [
    [`cat ${join(night.box, 'secret.txt')}`, 'read a secret'],
    [`ls ${night.home}`, 'listed the home'],
    [`cat ${join(night.root, 'README.md')}`, 'read the checkout'],
    [`sh -c 'echo gone > ${join(night.root, 'README.md')}'`, 'wrote to the checkout'],
    [`touch ${join(night.home, 'escaped')}`, 'wrote to the home'],
  ]
  const tries = attempts.map(([attempt, text]) => `${attempt} >/dev/null 2>&1 && echo ${text} >> ${said}`)
  return [`mkdir -p ${id}`, `echo ${id} > ${said}`, ...tries, `cat ${said}`].join('; ')
}

for (const worker of WORKERS) {
  const name = worker.route.backend
  for (const sandbox of hasLandlock ? ['landlock', 'off'] : ['off']) {
    const can = sandbox === 'off'
    const what = can ? 'reaches out, which is a question' : 'is held to its worktree'
    test(`${name} with the sandbox ${sandbox} ${what}`, options, async (t) => {
      let night
      const answer = (call) => {
        if (call.side || roleOf(call) !== 'work') return honest(call)
        if (call.turns > 0) return honest(call)
        const input = { [worker.word]: reach(night, taskOf(call)), description: 'say it' }
        return { tools: [{ name: worker.shell, input }] }
      }
      const server = await startModelServer(answer)
      night = new Bench(clis, server)
      t.after(() => night.end())
      const other = name === 'dsh' ? { backend: 'claude', model: 'opus' } : route('dsh', 'deepseek-pro')
      await night.arm({
        plannerRoute: other,
        reviewerRoute: other,
        routing: everyTier(worker.route),
        sandbox,
      })
      night.change((config) => {
        const args = [...(worker.loose.args ?? []), ...(config[name].args ?? [])]
        config[name] = { ...config[name], ...worker.loose, args }
      })
      // Without it claude keeps its own fence up for root.
      night.env.IS_SANDBOX = '1'
      writeFileSync(join(night.box, 'secret.txt'), 'secret\n')
      const { code, output } = await night.loop().ended
      const status = await night.status()
      const seen = `${code} ${output}\n${JSON.stringify(status, null, 1)}`
      if (can) {
        // It reached out: that is seen afterwards, and is a question.
        assert.match(JSON.stringify(status.questions), /escaped_write/, seen)
        assert.equal(readFileSync(join(night.root, 'README.md'), 'utf8'), 'gone\n')
        return
      }
      assert.equal(status.phase, 'complete', seen)
      const { stdout } = await night.git('show', 'work:hello/said.txt')
      assert.equal(stdout, 'hello\n', 'nothing came through')
      assert.ok(!existsSync(join(night.home, 'escaped')), seen)
      assert.deepEqual([night.workers(), night.leftovers()], [[], []])
    })
  }
}
