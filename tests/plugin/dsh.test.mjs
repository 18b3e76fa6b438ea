// The packed plugin inside the real DSH: it is added, ticks a project to the end of a scripted night, refuses
// strangers, survives a bad configuration, and leaves nothing behind. Needs `cargo xtask dist` before.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import {
  Dsh,
  installHost,
  repository,
  sampleRepository,
  snapshot,
  testTarball,
  until,
} from './lib/harness.mjs'

const run = promisify(execFile)
const PACKAGE = '@jhfnetboy/dsh-devloop'
let dsh
let tarball

before(async () => {
  tarball = testTarball()
  dsh = new Dsh(await installHost())
})
after(() => dsh?.end())

/** Writes the profile's own layer: rows that change the rows of the bundles. */
function profileLayer(rows) {
  // JSON is YAML.
  writeFileSync(dsh.profileFile('cordis.patch.yml'), JSON.stringify(rows))
}
const row = (config, more = {}) => [{ id: 'devloop', config, ...more }]

/** The installed CLI, as an operator without a global installation starts it. */
async function cli(...args) {
  const script = dsh.profileFile(`node_modules/${PACKAGE}/lib/bin/devloop.js`)
  return await run('node', [script, ...args], { env: dsh.env, cwd: dsh.box })
}

/** Whether a project has been ticked or refused. */
const settled = (project) => project.error !== null || project.view !== null

function listProjects(roots) {
  mkdirSync(join(dsh.dshHome, 'devloop'), { recursive: true })
  const projects = roots.map((root) => ({ root, addedAt: '2026-01-01', note: 'kept' }))
  writeFileSync(join(dsh.dshHome, 'devloop', 'projects.json'), JSON.stringify({ version: 1, projects }))
}

/** Waits until the plugin has ticked `count` times more. */
async function beats(web, count) {
  const first = (await web.projects()).beats
  await until(`${count} beats`, async () => {
    const { beats } = await web.projects()
    return { ok: beats >= first + count, value: beats }
  })
}

/** Process ids of everything below a process, from /proc. */
function descendants(pid) {
  const parents = new Map()
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
    } catch {
      // It ended while we looked.
    }
  }
  const below = (parent) =>
    [...parents].filter(([, of]) => of === parent).flatMap(([child]) => [child, ...below(child)])
  return below(pid)
}

/** Process ids whose command line or working folder names a path. */
function processesNaming(path) {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return (
        readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(path) ||
        readlinkSync(`/proc/${name}/cwd`).startsWith(path)
      )
    } catch {
      return false
    }
  })
}

test('the tarball is added to the web profile and its layer is composed', async () => {
  await dsh.call(['plugin', '--profile', 'web', 'add', tarball])
  const dump = await dsh.call(['--profile', 'web', '--dump-config'])
  assert.match(dump, /^# == @jhfnetboy\/dsh-devloop$/m)
  assert.match(dump, /^- id: devloop$/m)
  const installed = dsh.profileFile(`node_modules/${PACKAGE}`)
  for (const file of [
    'docs/Install.md',
    'LICENSE',
    'templates/cordis.patch.yml',
    'lib/index.js',
    'dashboard/index.html',
  ]) {
    assert.ok(existsSync(join(installed, file)), file)
  }
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
  assert.deepEqual(Object.keys(manifest.scripts ?? {}), [], 'a script of ours would stop the installation')
  assert.match((await cli('--version')).stdout, new RegExp(manifest.version.replaceAll('.', '\\.')))
})

test('a stranger gets 403 everywhere, this machine gets the page', async () => {
  const root = join(dsh.box, 'fence')
  await sampleRepository(root, dsh.env)
  const web = await dsh.web(root, ['--trusted-host', 'box.example'])
  try {
    for (const path of [
      '/devloop',
      '/devloop/',
      '/devloop/app.js',
      '/devloop/app.css',
      '/devloop/api/projects',
      '/devloop/x',
    ]) {
      assert.equal((await web.get(path, { host: 'evil.example' })).status, 403, path)
      assert.equal((await web.get(path, { 'sec-fetch-site': 'cross-site' })).status, 403, path)
      assert.equal((await web.get(path, { origin: 'http://evil.example' })).status, 403, path)
    }
    assert.equal((await web.get('/devloop/', { host: 'box.example' })).status, 200, 'a --trusted-host name')
    const page = await web.get('/devloop/')
    assert.equal(page.status, 200)
    assert.match(page.headers['content-security-policy'], /default-src 'none'/)
    const { engine, projects } = await web.projects()
    assert.ok(engine.ok, engine.detail)
    assert.deepEqual(
      projects.map((p) => [p.root, p.own]),
      [[root, true]],
    )
  } finally {
    assert.equal((await web.stop()).code, 0)
  }
})

/** Arms a repository with a scripted night: a plan, two tasks, one of them reworked once. */
function arm(root, rules) {
  mkdirSync(join(root, '.devloop'))
  writeFileSync(join(root, '.devloop', 'GOAL.md'), '# Goal\n\nTwo files, each with its greeting.\n')
  const script = join(root, '.devloop', 'night.json')
  writeFileSync(script, JSON.stringify({ version: 1, rules }))
  return { root, tickIntervalMs: 500, agentBackend: 'scripted', scripted: { script } }
}

const used = { tokens: { input: 1000, output: 200 }, costUsd: 0.01 }
const planned = (id) => ({
  id,
  title: `Write ${id}.txt`,
  tier: 'T1',
  risk: 'low',
  dependsOn: [],
  allowedPaths: [`${id}.txt`],
  criteria: [`${id}.txt greets`],
})
const work = (id, content, more = {}) => ({
  role: 'work',
  task: id,
  edits: [{ path: `${id}.txt`, content }],
  result: { work: 'completed', summary: 'written' },
  usage: used,
  ...more,
})
const review = (id, verdict, more = {}) => ({
  role: 'review',
  task: id,
  result: { review: verdict, notes: 'greet louder' },
  usage: used,
  ...more,
})

test('a scripted night runs to its end through the plugin', async () => {
  const root = join(dsh.box, 'night')
  const git = await sampleRepository(root, dsh.env)
  const rules = [
    { role: 'plan', result: { plan: [planned('hello'), planned('world')] }, usage: used },
    work('hello', 'hello\n', { attempt: 1 }),
    work('hello', 'HELLO\n'),
    work('world', 'world\n'),
    review('hello', 'rework', { attempt: 1 }),
    review('hello', 'pass'),
    review('world', 'pass'),
  ]
  profileLayer(row(arm(root, rules)))
  const web = await dsh.web(dsh.box)
  try {
    const project = await until('the goal is complete', async () => {
      const [first] = (await web.projects()).projects
      return { ok: first?.view?.phase === 'complete', value: first }
    })
    assert.equal(project.error, null)
    assert.deepEqual(project.view.tasks.map((task) => task.id).sort(), ['hello', 'world'])
    assert.equal(project.view.money.goal.measured, 70_000)
    assert.deepEqual(project.view.questions, [])
    assert.equal((await git('show', 'work:hello.txt')).stdout, 'HELLO\n')
    assert.equal((await git('show', 'work:world.txt')).stdout, 'world\n')
    assert.equal((await git('status', '--porcelain')).stdout, '')
  } finally {
    assert.equal((await web.stop()).code, 0)
    profileLayer([])
  }
  assert.match((await run('cat', [join(root, '.devloop', 'PROGRESS.md')])).stdout, /hello/)
})

test('a question is answered by the command the page shows, and by a slash command', async () => {
  const root = join(dsh.box, 'asks')
  const git = await sampleRepository(root, dsh.env)
  const rules = [
    { role: 'plan', result: { plan: [planned('one'), planned('two')] }, usage: used },
    { role: 'work', attempt: 1, result: { work: 'blocked', summary: 'I need a hand' }, usage: used },
    work('one', 'one\n'),
    review('one', 'pass'),
  ]
  profileLayer(row(arm(root, rules)))
  const web = await dsh.web(dsh.box)
  const first = async () => (await web.projects()).projects[0]
  try {
    const { view } = await until('both tasks ask', async () => {
      const project = await first()
      return { ok: project?.view?.questions?.length === 2, value: project }
    })
    const asked = view.questions.find((question) => question.key.startsWith('task/one:'))
    const retry = asked.answers.find((offer) => offer.answer === 'retry')
    assert.match(retry.command, /lib\/bin\/devloop\.js answer retry /)
    await run('sh', ['-c', retry.command], { env: dsh.env, cwd: '/' })
    await until('the answered task is done', async () => {
      const project = await first()
      return { ok: project.view.tasks.find((task) => task.id === 'one').stage === 'merged', value: project }
    })
    const { sessionId } = await web.call('session.create', { cwd: root })
    const type = (line) => web.call('commands/execute', { args: { agentId: sessionId, line, images: [] } })
    const said = JSON.stringify(await type('/devloop status'))
    assert.match(said, /devloop answer drop --hold task\/two:blocked_task/)
    assert.match(JSON.stringify(await type('/devloop dance')), /unknown word/)
    await type('/devloop answer drop --hold task/two:blocked_task')
    await until('the goal is complete', async () => {
      const project = await first()
      return { ok: project.view.phase === 'complete', value: project }
    })
    assert.equal((await git('show', 'work:one.txt')).stdout, 'one\n')
  } finally {
    assert.equal((await web.stop()).code, 0)
    profileLayer([])
  }
})

test('the default backend shows the next dispatch and writes nothing outside .devloop', async () => {
  const root = join(dsh.box, 'noop')
  await sampleRepository(root, dsh.env)
  mkdirSync(join(root, '.devloop'))
  writeFileSync(join(root, '.devloop', 'GOAL.md'), '# Goal\n\nAnything.\n')
  const outside = () => snapshot(root, (path) => path === '.devloop')
  const before = outside()
  const web = await dsh.web(root)
  try {
    const project = await until('the next dispatch is named', async () => {
      const [first] = (await web.projects()).projects
      return { ok: /noop/.test(JSON.stringify(first?.view ?? '')), value: first }
    })
    assert.equal(project.error, null)
    assert.deepEqual(project.view.running, [])
    await beats(web, 2)
  } finally {
    assert.equal((await web.stop()).code, 0)
  }
  assert.deepEqual(outside(), before)
})

test('an unarmed folder and a bare .devloop are never written to', async () => {
  const bare = join(dsh.box, 'bare')
  const plain = join(dsh.box, 'plain')
  await sampleRepository(bare, dsh.env)
  mkdirSync(join(bare, '.devloop'))
  mkdirSync(plain)
  const before = [snapshot(bare), snapshot(plain)]
  listProjects([plain])
  const web = await dsh.web(bare)
  try {
    await until('both projects are looked at', async () => {
      const { projects } = await web.projects()
      return { ok: projects.length === 2 && projects.every(settled), value: projects }
    })
    await beats(web, 3)
  } finally {
    await web.stop()
    listProjects([])
  }
  assert.deepEqual([snapshot(bare), snapshot(plain)], before)
})

test('a bad configuration is repaired and shown, and the host goes on', async () => {
  const root = join(dsh.box, 'badly')
  mkdirSync(root)
  profileLayer(
    row({ root, tickIntervalMs: 'often', agentBackend: ['noop'], tickIntervalMS: 5, budget: 'lots' }),
  )
  const registry = join(dsh.dshHome, 'devloop', 'projects.json')
  mkdirSync(join(dsh.dshHome, 'devloop'), { recursive: true })
  writeFileSync(registry, '{ this is not json')
  const web = await dsh.web(root)
  try {
    const seen = await until('the reports are shown', async () => {
      const value = await web.projects()
      return {
        ok: value.reports.length >= 2 && value.projects.length > 0 && settled(value.projects[0]),
        value,
      }
    })
    assert.ok(
      seen.reports.some((text) => text.includes('tickIntervalMs: must be a whole number')),
      JSON.stringify(seen.reports),
    )
    assert.ok(
      seen.reports.some((text) => /tickIntervalMS: unknown key; did you mean tickIntervalMs/.test(text)),
      JSON.stringify(seen.reports),
    )
    assert.match(seen.registryError, /projects\.json/)
    profileLayer(row('just words'))
    await until('the edited configuration is judged', async () => {
      const { reports } = await web.projects()
      return { ok: reports.some((text) => text.includes('must be an object')), value: reports }
    })
    assert.ok(web.running)
  } finally {
    assert.equal((await web.stop()).code, 0)
    profileLayer([])
  }
  assert.equal(
    readFileSync(registry, 'utf8'),
    '{ this is not json',
    'a list that cannot be read is never written over',
  )
  rmSync(registry)
})

test('a live unload leaves nothing behind, a live load starts again', async () => {
  const root = join(dsh.box, 'unload')
  await sampleRepository(root, dsh.env)
  const rules = [
    { role: 'plan', result: { plan: [planned('hello')] }, usage: used },
    { role: 'work', process: true, result: { end: 'hang' } },
  ]
  const config = arm(root, rules)
  profileLayer(row(config))
  const web = await dsh.web(dsh.box)
  try {
    const ours = async () => (await web.get('/devloop/api/projects')).body.startsWith('{"ok":true')
    await until('a worker process runs', async () => {
      const { projects } = await web.projects()
      return {
        ok: descendants(web.child.pid).length > 0 && projects[0].view.running.length > 0,
        value: projects,
      }
    })
    profileLayer([{ id: 'devloop', config, disabled: true }])
    await until('the routes are gone', async () => ({ ok: !(await ours()) }))
    await until('its processes are gone', async () => {
      const left = descendants(web.child.pid)
      return { ok: left.length === 0, value: left }
    })
    // The processes are gone a moment before the project is given back.
    await until('another supervisor can take the project while this DSH runs', async () => {
      const ran = await cli('tick', root).catch((error) => ({ stdout: '', error }))
      return { ok: ran.stdout !== '', value: ran.error }
    })
    profileLayer(row(config))
    await until('the routes are back', async () => ({ ok: await ours() }))
    assert.ok(web.running)
  } finally {
    assert.equal((await web.stop()).code, 0)
    profileLayer([])
  }
  assert.deepEqual(processesNaming(root), [], 'a worker outlived its DSH')
})

test('the built folder itself can be added', async () => {
  const other = new Dsh(dsh.binary)
  try {
    await other.call(['plugin', '--profile', 'web', 'add', join(repository, 'npm/dsh-devloop')])
    const web = await other.web(other.box)
    const { engine, projects } = await web.projects()
    assert.ok(engine.ok, engine.detail)
    assert.equal(projects[0].root, other.box)
    assert.equal((await web.stop()).code, 0)
  } finally {
    await other.end()
  }
})

test('after a removal the profile is as it was', async () => {
  await dsh.call(['plugin', '--profile', 'web', 'remove', PACKAGE])
  assert.doesNotMatch(await dsh.call(['--profile', 'web', '--dump-config']), /devloop/)
  const web = await dsh.web(dsh.box)
  assert.equal((await web.get('/devloop/api/projects')).body.startsWith('{"ok":true'), false)
  assert.equal((await web.stop()).code, 0)
})
