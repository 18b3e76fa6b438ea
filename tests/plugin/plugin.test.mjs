// The plugin's own parts against a context and an engine made here: configuration, list of projects, fence,
// loops, commands. What the real host and the real engine do is tested in dsh.test.mjs.
import assert from 'node:assert/strict'
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { agentPort } from '../../npm/dsh-devloop/lib/agent-port.js'
import { parseWords, statusText } from '../../npm/dsh-devloop/lib/commands.js'
import { Config, readConfig, readRegistry } from '../../npm/dsh-devloop/lib/config.js'
import { apply, start } from '../../npm/dsh-devloop/lib/index.js'
import { loadNative } from '../../npm/dsh-devloop/lib/native.js'
import { answer, ownFence } from '../../npm/dsh-devloop/lib/routes.js'

const box = mkdtempSync(join(tmpdir(), 'devloop-plugin-'))
process.env.DSH_HOME = join(box, 'dsh')
after(() => rmSync(box, { recursive: true, force: true }))

/** A Cordis context as far as the plugin uses one; `unload()` disposes in reverse order, as Cordis does. */
function fakeContext(services = {}) {
  const disposers = []
  const ctx = {
    beats: [],
    commandsSeen: [],
    routes: [],
    effect(run) {
      disposers.push(run())
    },
    inject(names, use) {
      if (names.every((name) => name in services)) use(ctx)
    },
    get: (name) => services[name],
    interval(beat, ms) {
      ctx.beats.push({ beat, ms })
    },
    webServer: {
      register(route) {
        ctx.routes.push(route)
        return () => ctx.routes.splice(0)
      },
    },
    commands: {
      register(command) {
        ctx.commandsSeen.push(command)
        return () => ctx.commandsSeen.splice(0)
      },
    },
    async unload() {
      for (const dispose of disposers.reverse()) await dispose()
    },
  }
  return ctx
}

/** An engine whose ticks end when the test says so. */
function fakeNative({ tickFails = [] } = {}) {
  const made = []
  class Supervisor {
    constructor(options, notify) {
      Object.assign(this, {
        options: JSON.parse(options),
        notify,
        ticks: 0,
        closed: 0,
        commands: [],
        waiting: [],
      })
      made.push(this)
    }
    tick() {
      this.ticks++
      const no = tickFails.shift()
      if (no) return Promise.reject(new Error(no))
      return new Promise((settle) => this.waiting.push(() => settle('{}')))
    }
    view() {
      return JSON.stringify({ ticks: this.ticks })
    }
    async command(text) {
      this.commands.push(JSON.parse(text))
      return '{"accepted":true,"sentence":"Paused.","next":"Nothing runs."}'
    }
    async close() {
      this.closed++
      for (const end of this.waiting.splice(0)) end()
    }
  }
  const readConfig = (json) => JSON.stringify({ reports: [], ...JSON.parse(json) })
  const module = { Supervisor, readConfig, version: () => '0' }
  return { ok: true, module, from: 'here', made }
}

const turn = () => new Promise((next) => setImmediate(next))

test('whatever stands in the profile, the plugin has a configuration', () => {
  const { module } = fakeNative()
  const engine = { ok: true, module, from: 'here' }
  const none = { ok: false, error: 'none here' }
  const defaults = { root: '/there', enabled: true, tickIntervalMs: 2000 }
  const some = (raw, native) => {
    const { root, enabled, tickIntervalMs } = readConfig(raw, native, '/there')
    return { root, enabled, tickIntervalMs }
  }
  for (const native of [engine, none]) assert.deepEqual(some(undefined, native), defaults)
  assert.deepEqual(some({ root: 'sub', tickIntervalMs: 500 }, engine), {
    ...defaults,
    root: '/there/sub',
    tickIntervalMs: 500,
  })
  assert.equal(readConfig({ a: 1 }, engine).json, '{"a":1}')
  const circle = {}
  circle.circle = circle
  for (const raw of [circle, { big: 1n }, { toJSON: () => assert.fail('no') }]) {
    assert.deepEqual(some(raw, engine), defaults)
    assert.match(readConfig(raw, engine).reports[0], /cannot be read, the defaults are in force/)
  }
  const broken = { ...module, readConfig: () => 'not json' }
  assert.deepEqual(some({}, { ...engine, module: broken }), defaults)
  assert.deepEqual(Config['~standard'].validate('nonsense'), { value: 'nonsense' })
  assert.deepEqual(Config['~standard'].validate(undefined), { value: {} })
})

test('the list of projects is read, its unknown fields tolerated, and never written', () => {
  const home = join(box, 'list')
  const file = join(home, 'devloop', 'projects.json')
  mkdirSync(join(home, 'devloop'), { recursive: true })
  const roots = (text) => {
    writeFileSync(file, text)
    const registry = readRegistry(box, home)
    assert.equal(readFileSync(file, 'utf8'), text)
    return { roots: registry.projects.map((p) => p.root).slice(1), error: registry.error }
  }
  const list = (...projects) => JSON.stringify({ version: 1, projects, kept: true })
  assert.deepEqual(readRegistry(box, join(box, 'absent')).error, undefined)
  assert.deepEqual(roots(list({ root: '/a', addedAt: 'x' }, { root: '/b' })), {
    roots: ['/a', '/b'],
    error: undefined,
  })
  assert.deepEqual(roots(list({ root: '/a' }, { root: '/a' }, { root: box })).roots, ['/a'])
  assert.match(roots(list({ root: 'a' })).error, /projects\[0\].root must be an absolute path/)
  assert.match(roots('{').error, /projects.json: /)
  assert.match(roots('[]').error, /must be/)
  assert.match(roots('{"version":2,"projects":[]}').error, /newer DevLoop/)
  const [own] = readRegistry(box, home).projects
  assert.match(own.id, /^[0-9a-f]{12}$/)
  assert.equal(own.own, true)
})

test('the own fence lets this machine and trusted names through, nothing else', () => {
  const judge = (headers, trusted = []) => ownFence({ headers }, trusted)
  for (const host of ['127.0.0.1:3080', 'localhost', '[::1]:1', 'a.localhost:9', 'LOCALHOST:1']) {
    assert.equal(judge({ host }), undefined, host)
  }
  for (const host of [
    undefined,
    '',
    'evil.example',
    '127.0.0.1.evil.example',
    'x@127.0.0.1',
    '127.0.0.1/x',
    'localhost:1:2',
    ' localhost',
  ]) {
    assert.equal(judge({ host }), 403, String(host))
  }
  assert.equal(judge({ host: 'box.lan:3080' }, ['box.lan']), undefined)
  assert.equal(judge({ host: 'box.lan:3080' }, ['box.lan:3080']), undefined)
  assert.equal(judge({ host: 'box.lan:3081' }, ['box.lan:3080']), 403)
  const host = 'localhost:1'
  assert.equal(judge({ host, origin: 'http://localhost:1' }), undefined)
  for (const origin of ['http://localhost:2', 'http://evil.example', 'null', 'file://localhost:1']) {
    assert.equal(judge({ host, origin }), 403, origin)
  }
  for (const [site, verdict] of [
    ['same-origin', undefined],
    ['none', undefined],
    ['same-site', 403],
    ['cross-site', 403],
  ]) {
    assert.equal(judge({ host, 'sec-fetch-site': site }), verdict, site)
  }
})

/** One request through `answer`, with what it wrote. */
function ask(ctx, loops, url, { method = 'GET', headers = { host: 'localhost' } } = {}) {
  const res = {
    writeHead(code, heads) {
      Object.assign(res, { code, heads })
    },
    end(body = '') {
      res.body = body
    },
  }
  answer(ctx, loops, { url, method, headers }, res)
  return res
}

test("every path passes the fence first, and the host's own check where there is one", () => {
  const ctx = fakeContext({ timer: {} })
  const loops = start(ctx, { root: box, enabled: false }, { ok: false, error: 'none here' })
  for (const path of [
    '/devloop',
    '/devloop/',
    '/devloop/app.js',
    '/devloop/app.css',
    '/devloop/api/projects',
    '/devloop/nothing',
  ]) {
    assert.equal(ask(ctx, loops, path, { headers: { host: 'evil.example' } }).code, 403, path)
  }
  assert.equal(ask(ctx, loops, '/devloop').heads.location, '/devloop/')
  assert.equal(ask(ctx, loops, '/devloop/nothing').code, 404)
  assert.equal(ask(ctx, loops, '/devloop/constructor').code, 404)
  assert.equal(ask(ctx, loops, '/devloop/api/projects', { method: 'POST' }).code, 405)
  for (const asset of ['/devloop/', '/devloop/app.js', '/devloop/app.css']) {
    const page = ask(ctx, loops, asset)
    assert.equal(page.code, 200)
    assert.match(page.heads['content-security-policy'], /^default-src 'none'; script-src 'self'/)
    assert.equal(ask(ctx, loops, asset, { method: 'HEAD' }).body, '')
  }
  const { value } = JSON.parse(ask(ctx, loops, '/devloop/api/projects').body)
  assert.deepEqual(value.engine, { ok: false, detail: 'none here' })
  assert.equal(value.projects[0].error, 'none here')
  const judged = []
  const strict = (verdict) =>
    fakeContext({
      connection: {
        requestRejection: (req) => {
          judged.push(req.url)
          if (verdict === 'throw') throw new Error('no')
          return verdict
        },
      },
    })
  assert.equal(ask(strict(401), loops, '/devloop/app.css').code, 401)
  assert.equal(ask(strict(403), loops, '/devloop/').code, 403)
  assert.equal(ask(strict('throw'), loops, '/devloop/').code, 403)
  assert.equal(ask(strict(undefined), loops, '/devloop/', { headers: { host: 'evil.example' } }).code, 200)
  assert.equal(judged.length, 4)
})

test('ticks never overlap; a finished dispatch ticks at once, and right after a running tick', async () => {
  const ctx = fakeContext({ timer: {} })
  const native = fakeNative()
  const loops = start(ctx, { root: box, agentBackend: 'noop' }, native)
  assert.equal(ctx.beats[0].ms, 2000)
  await turn()
  const [engine] = native.made
  assert.deepEqual(engine.options, {
    root: box,
    dshHome: process.env.DSH_HOME,
    config: JSON.stringify({ root: box, agentBackend: 'noop' }),
  })
  assert.equal(engine.ticks, 1)
  ctx.beats[0].beat()
  await turn()
  assert.equal(engine.ticks, 1, 'a beat during a tick is dropped')
  engine.notify('{"kind":"wake"}')
  engine.waiting.shift()()
  await turn()
  assert.equal(engine.ticks, 2, 'a wake during a tick is kept')
  engine.waiting.shift()()
  await turn()
  assert.equal(engine.ticks, 2)
  engine.notify('{"kind":"wake"}')
  await turn()
  assert.equal(engine.ticks, 3, 'a wake between beats does not wait for the timer')
  assert.deepEqual(loops.view().projects[0].view, { ticks: 3 })
  await ctx.unload()
  assert.equal(engine.closed, 1)
  engine.notify('{"kind":"wake"}')
  ctx.beats[0].beat()
  await turn()
  assert.equal(engine.ticks, 3, 'nothing ticks after the unload')
  assert.equal(native.made.length, 1)
})

test('an engine that wakes without end is held back to the beats', async () => {
  const ctx = fakeContext({ timer: {} })
  const native = fakeNative()
  start(ctx, { root: box }, native)
  await turn()
  const [engine] = native.made
  for (let i = 0; i < 100; i++) {
    engine.waiting.shift()?.()
    engine.notify('{"kind":"wake"}')
    await turn()
  }
  const bounded = engine.ticks
  assert.ok(bounded <= 40, `${bounded} ticks without one beat`)
  ctx.beats[0].beat()
  await turn()
  assert.equal(engine.ticks, bounded + 1)
  await ctx.unload()
})

test('failures of the engine stay inside, are shown, and are tried again at the next beat', async () => {
  const ctx = fakeContext({ timer: {} })
  const native = fakeNative({ tickFails: ['held by another process', 'disk full'] })
  const loops = start(ctx, { root: box }, native)
  await turn()
  assert.equal(loops.view().projects[0].error, 'held by another process')
  ctx.beats[0].beat()
  await turn()
  assert.equal(loops.view().projects[0].error, 'disk full')
  ctx.beats[0].beat()
  await turn()
  native.made[0].waiting.shift()()
  await turn()
  assert.equal(loops.view().projects[0].error, null)
  await ctx.unload()
})

test('an unload during the first tick closes the engine', async () => {
  const ctx = fakeContext({ timer: {} })
  const native = fakeNative()
  start(ctx, { root: box }, native)
  await ctx.unload()
  assert.deepEqual(
    native.made.map((engine) => engine.closed),
    [1],
  )
})

test('projects listed while running are opened, and let go when they leave the list', async () => {
  const home = join(process.env.DSH_HOME, 'devloop')
  mkdirSync(home, { recursive: true })
  const list = (...roots) =>
    writeFileSync(
      join(home, 'projects.json'),
      JSON.stringify({ version: 1, projects: roots.map((root) => ({ root })) }),
    )
  list()
  const ctx = fakeContext({ timer: {} })
  const native = fakeNative()
  const loops = start(ctx, { root: box }, native)
  list('/listed')
  ctx.beats[0].beat()
  await turn()
  assert.deepEqual(
    native.made.map((engine) => engine.options.root),
    [box, '/listed'],
  )
  writeFileSync(join(home, 'projects.json'), '{')
  ctx.beats[0].beat()
  await turn()
  assert.equal(native.made[1].closed, 0, 'an unreadable list takes nobody away')
  assert.match(loops.view().registryError, /projects.json/)
  list()
  ctx.beats[0].beat()
  await turn()
  assert.equal(native.made[1].closed, 1)
  assert.equal(loops.view().projects.length, 1)
  await ctx.unload()
  rmSync(join(home, 'projects.json'))
})

test('the callback of the engine swallows nonsense and is deaf after its disposal', () => {
  const seen = []
  const port = agentPort({ wake: () => seen.push('wake'), report: (problem) => seen.push(problem) })
  for (const message of ['{"kind":"wake"}', '{', 'null', '{"kind":"dance"}']) port.notify(message)
  assert.equal(seen.length, 4)
  assert.equal(seen[0], 'wake')
  port.dispose()
  port.notify('{"kind":"wake"}')
  assert.equal(seen.length, 4)
})

test('an agent answers for its own dispatch, and a stop or a disposal reaches only what runs', async () => {
  const told = []
  const started = []
  const agents = {
    run: (request, used, signal) =>
      new Promise((settle) => {
        started.push(request.dispatch)
        used({ outputTokens: 1 })
        signal.addEventListener('abort', () => settle({ kind: 'aborted' }))
      }),
  }
  const port = agentPort({ answer: (json) => told.push(JSON.parse(json)), agents })
  const say = (message) => port.notify(JSON.stringify(message))
  for (const dispatch of ['1.1', '2.1']) say({ kind: 'agent', dispatch })
  say({ kind: 'stop', dispatch: '1.1' })
  say({ kind: 'stop', dispatch: 'unknown' })
  await turn()
  const ends = () => told.filter((answer) => answer.end).map((answer) => answer.dispatch)
  assert.deepEqual(started, ['1.1', '2.1'])
  assert.deepEqual(told[0], { dispatch: '1.1', usage: { outputTokens: 1 } })
  assert.deepEqual(ends(), ['1.1'])
  port.dispose()
  await turn()
  assert.deepEqual(ends(), ['1.1', '2.1'])
})

test('a missing, foreign or broken addon is a sentence', () => {
  assert.match(loadNative(join(box, 'absent')).error, /no engine for .* is not installed/)
  const folder = join(box, 'broken')
  mkdirSync(folder)
  for (const name of [
    'linux-x64-gnu',
    'linux-x64-musl',
    'linux-arm64-gnu',
    'darwin-arm64',
    'darwin-x64',
    'win32-x64-msvc',
  ]) {
    writeFileSync(join(folder, `devloop.${name}.node`), 'not an addon')
  }
  assert.match(loadNative(folder).error, /found but does not load/)
})

test('apply never throws, whatever the host gives', () => {
  apply(
    {
      effect() {
        throw new Error('no effects today')
      },
    },
    {},
  )
})

test('the state in words names each question with what to type', () => {
  const offer = { answer: 'retry --fresh', text: 'work again' }
  const question = { key: 'task/a:orphans', text: 'It died thrice.', answers: [offer] }
  const task = { id: 'a', stage: 'held', waits_for: 'you' }
  const shown = {
    name: 'p',
    root: '/p',
    error: null,
    view: { sentence: 'One question.', tasks: [task], questions: [question] },
  }
  assert.equal(
    statusText(shown),
    'p (/p)\nOne question.\na: held, you\nIt died thrice.\n' +
      '  /devloop answer retry --fresh --hold task/a:orphans  (work again)',
  )
  const lost = { reason: 'invalid_state', question: 'Which is right?', by_hand: ['look: devloop doctor /p'] }
  assert.equal(
    statusText({ ...shown, error: 'it is torn', view: { sentence: 'it is torn', ...lost } }),
    'p (/p)\nit is torn\ninvalid_state: Which is right?\n  by hand: look: devloop doctor /p',
  )
  assert.equal(statusText({ ...shown, error: 'held elsewhere', view: null }), 'p (/p)\nheld elsewhere')
})

test('slash words become commands, and misuse is a sentence', async () => {
  const command = (text) => parseWords(text)
  assert.equal(parseWords(''), undefined)
  assert.equal(parseWords(' status '), undefined)
  assert.deepEqual(command(' answer retry --hold task/a:orphans --revision 7'), {
    answer: { answer: 'retry', hold: 'task/a:orphans', revision: 7 },
  })
  assert.equal(command('answer retry --fresh').answer.answer, 'retry_fresh')
  assert.equal(command('answer go-on').answer.answer, 'go_on')
  assert.deepEqual(command('pause --now'), { pause: { now: true } })
  assert.deepEqual(command('resume --task t1 --reset-cost'), {
    resume: { task: 't1', reset_cost: true },
  })
  for (const bad of [
    'dance',
    'answer',
    'answer a b',
    'pause --task x',
    'resume --hold x',
    'answer a --revision x',
    'status now',
    'pause --nope',
    'toString',
  ]) {
    assert.throws(() => parseWords(bad), Error, bad)
  }
  const ctx = fakeContext({ timer: {}, commands: {} })
  const native = fakeNative()
  start(ctx, { root: box }, native)
  await turn()
  const say = (rawInput) =>
    ctx.commandsSeen[0].handler({ rawInput, agent: { session: { header: { cwd: box } } } })
  assert.equal((await say('dance')).kind, 'error')
  assert.equal((await say('status')).kind, 'success')
  assert.deepEqual(await say(' pause'), { kind: 'success', text: 'Paused.\nNothing runs.' })
  assert.deepEqual(native.made[0].commands, [{ by: 'chat', wish: { pause: { now: false } } }])
  await ctx.unload()
  assert.equal(ctx.commandsSeen.length, 0)
})
