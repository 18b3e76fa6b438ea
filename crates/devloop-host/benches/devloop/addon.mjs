// What the addon costs a Node process: its size, its loading, the first tick of a quiet project, memory.
// Called by `cargo xtask bench` with the addon and an armed sample project; it prints Markdown and changes
// nothing of the addon.
import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { argv, execPath, memoryUsage, version } from 'node:process'
import { fileURLToPath } from 'node:url'

const ROUNDS = 15
const [, self, addon, root, home, part] = argv

/** One fresh process: loads, opens, ticks once, and says what each took. */
async function once() {
  const before = memoryUsage().rss
  const start = performance.now()
  const module = { exports: {} }
  process.dlopen(module, addon)
  const loaded = performance.now()
  const afterLoad = memoryUsage().rss
  const options = { root, dshHome: home, config: '{}' }
  const supervisor = new module.exports.Supervisor(JSON.stringify(options), () => undefined)
  const first = performance.now()
  const report = JSON.parse(await supervisor.tick())
  const ticked = performance.now()
  await supervisor.tick()
  const again = performance.now()
  const after = memoryUsage().rss
  await supervisor.close()
  const figures = {
    load: loaded - start,
    first: ticked - first,
    second: again - ticked,
    loadBytes: afterLoad - before,
    bytes: after - before,
    reason: report.reason,
  }
  console.log(JSON.stringify(figures))
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}

function child() {
  const done = spawnSync(execPath, [self, addon, root, home, 'once'], { encoding: 'utf8' })
  if (done.status !== 0) throw new Error(`the measured process failed: ${done.stderr}`)
  return JSON.parse(done.stdout)
}

function table() {
  const runs = Array.from({ length: ROUNDS }, child)
  const of = key => median(runs.map(run => run[key]))
  const [ms, mb] = [value => `${value.toFixed(2)} ms`, value => `${(value / 1e6).toFixed(1)} MB`]
  const goal = (value, limit, text) => `${text} (goal ${limit}: ${value <= limit ? 'met' : 'missed'})`
  const size = statSync(addon).size / 1e6
  const memory = of('bytes') / 1e6
  const rows = [
    ['size of the addon, image inside', goal(size, 6, mb(size * 1e6))],
    ['dlopen', ms(of('load'))],
    ['open the project and the first tick (git, locks, files, the core)', ms(of('first'))],
    ['second tick', ms(of('second'))],
    ['memory added by dlopen', mb(of('loadBytes'))],
    ['memory added after two ticks', goal(memory, 15, mb(memory * 1e6))],
  ]
  console.log('\n## The addon in Node\n')
  const how = 'fresh processes, medians; a quiet project with the `noop` backend.'
  console.log(`Node ${version}, ${ROUNDS} ${how}\n`)
  console.log('| what | value |\n| --- | --- |')
  for (const row of rows) console.log(`| ${row.join(' | ')} |`)
}

if (self === fileURLToPath(import.meta.url) && part === 'once') await once()
else table()
