// Runs the real DSH for tests: a pinned installation that is made once, private homes, and processes that are
// ended by their own pid. It knows nothing of the plugin's inside.
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
export const here = dirname(dirname(fileURLToPath(import.meta.url)))
export const repository = resolve(here, '../..')
const target = process.env.CARGO_TARGET_DIR
  ? resolve(process.env.CARGO_TARGET_DIR)
  : join(repository, 'target')
export const distFolder = join(target, 'dist-npm')
const tools = join(here, 'node_modules', '.bin')

/** Installs the pinned host once per content of `host/`; answers its `dsh`. */
export async function installHost() {
  const files = ['package.json', 'pnpm-workspace.yaml', 'pnpm-lock.yaml']
  const digest = createHash('sha256')
  for (const file of files) digest.update(readFileSync(join(here, 'host', file)))
  const folder = join(target, `dsh-host-${digest.digest('hex').slice(0, 12)}`)
  const ready = join(folder, '.ready')
  if (!existsSync(ready)) {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    for (const file of files) copyFileSync(join(here, 'host', file), join(folder, file))
    await run(join(tools, 'pnpm'), ['install', '--frozen-lockfile'], {
      cwd: folder,
      env: withTools(process.env),
    })
    writeFileSync(ready, '')
  }
  return join(folder, 'node_modules', '.bin', 'dsh')
}

/** The package as `cargo xtask dist` packed it for tests. */
export function testTarball() {
  const folder = join(distFolder, 'test')
  const name = existsSync(folder) && readdirSync(folder).find((file) => file.endsWith('.tgz'))
  if (!name) throw new Error('no tarball; run `cargo xtask dist --quick` first')
  return join(folder, name)
}

function withTools(env) {
  return { ...env, PATH: [tools, env.PATH].join(delimiter) }
}

/** A private home with its own DSH_HOME; nothing of the user's is read or written. */
export class Dsh {
  constructor(binary) {
    this.binary = binary
    this.box = mkdtempSync(join(tmpdir(), 'devloop-dsh-'))
    this.home = join(this.box, 'home')
    this.dshHome = join(this.home, 'dsh')
    mkdirSync(this.dshHome, { recursive: true })
    const { PATH, LANG, TMPDIR } = process.env
    this.env = withTools({
      PATH,
      HOME: this.home,
      DSH_HOME: this.dshHome,
      DSH_TELEMETRY_DISABLED: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      ...(LANG ? { LANG } : {}),
      ...(TMPDIR ? { TMPDIR } : {}),
    })
    this.webs = []
  }

  /** One whose web profile has the plugin, from the tarball for tests. */
  static async withPlugin() {
    const dsh = new Dsh(await installHost())
    await dsh.call(['plugin', '--profile', 'web', 'add', testTarball()])
    return dsh
  }

  /** One run of `dsh`, with its output; a bad exit is an exception that carries both streams. */
  async call(args, cwd = this.box) {
    const { stdout, stderr } = await run(this.binary, args, {
      cwd,
      env: this.env,
      timeout: 120_000,
      maxBuffer: 1 << 26,
    })
    return stdout + stderr
  }

  profileFile(name) {
    return join(this.dshHome, 'profiles', 'web', name)
  }

  /** Starts `dsh web` in `cwd` and waits for the URL it prints. */
  async web(cwd, args = []) {
    const web = await Web.start(this, cwd, args)
    this.webs.push(web)
    return web
  }

  /** Stops what runs and removes the box. */
  async end() {
    for (const web of this.webs) await web.stop()
    rmSync(this.box, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}

/** A running `dsh web`. */
export class Web {
  static start(dsh, cwd, args) {
    const child = spawn(dsh.binary, ['web', '--no-open', '--port', '0', ...args], {
      cwd,
      env: dsh.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const web = new Web()
    web.child = child
    web.output = ''
    web.exited = new Promise((settle) => child.on('exit', (code, signal) => settle({ code, signal })))
    return new Promise((settle, fail) => {
      const deadline = setTimeout(
        () => fail(new Error(`dsh web printed no URL in 60 s:\n${web.output}`)),
        60_000,
      )
      const take = (chunk) => {
        web.output += chunk
        web.url ??= /dsh web: (http:\/\/[^\s?]+)/.exec(web.output)?.[1]
        if (web.url) {
          clearTimeout(deadline)
          settle(web)
        }
      }
      child.stdout.on('data', take)
      child.stderr.on('data', take)
      web.exited.then(({ code }) => {
        clearTimeout(deadline)
        fail(new Error(`dsh web ended with ${code}:\n${web.output}`))
      })
    })
  }

  get running() {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  get(path, headers = {}) {
    return request(this.url, path, headers)
  }

  /** One call of DSH's own interface. */
  async call(method, payload) {
    const body = JSON.stringify({ type: 'client-request', rpcId: '1', method, payload })
    const response = await fetch(`${this.url}/api/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    const text = await response.text()
    const result = response.ok ? JSON.parse(text).result : undefined
    if (!result?.ok) throw new Error(`${method} answered ${response.status}: ${text}`)
    return result.value
  }

  /** The plugin's projects as its page sees them. While the host reloads the plugin its own page answers. */
  async projects() {
    return await until("the plugin's route is there", async () => {
      const { status, headers, body } = await this.get('/devloop/api/projects')
      if (status !== 200) throw new Error(`/devloop/api/projects answered ${status}: ${body}`)
      const ok = String(headers['content-type']).startsWith('application/json')
      return { ok, value: ok ? JSON.parse(body).value : body.slice(0, 200) }
    })
  }

  /** SIGTERM as a service manager would send it; answers how it ended. */
  async stop() {
    if (this.running) this.child.kill('SIGTERM')
    return await this.exited
  }
}

/** A request with any Host header (`fetch` forbids that one). */
export async function request(base, path, headers = {}, method = 'GET') {
  const http = await import('node:http')
  return await new Promise((settle, fail) => {
    const req = http.request(
      new URL(path, base),
      { method, headers, setHost: headers.host === undefined },
      (res) => {
        let body = ''
        res.setEncoding('utf8')
        res.on('data', (chunk) => {
          body += chunk
        })
        res.on('end', () => settle({ status: res.statusCode, headers: res.headers, body }))
        res.on('error', fail)
      },
    )
    req.on('error', fail)
    req.end()
  })
}

/** Asks again until `probe` gives something true; the last answer is in the failure. */
export async function until(what, probe, limitMs = 60_000) {
  const end = Date.now() + limitMs
  for (;;) {
    const seen = await probe()
    if (seen.ok) return seen.value
    if (Date.now() > end)
      throw new Error(`not seen in ${limitMs} ms: ${what}\n${JSON.stringify(seen.value, null, 1)}`)
    await new Promise((next) => setTimeout(next, 100))
  }
}

/** Every file below a folder with a digest of its bytes: what must not change, changed or not. */
export function snapshot(folder, skip = () => false) {
  const seen = {}
  const walk = (below) => {
    for (const entry of readdirSync(join(folder, below), { withFileTypes: true })) {
      const path = join(below, entry.name)
      if (skip(path)) continue
      if (entry.isDirectory()) {
        seen[path + '/'] = 'folder'
        walk(path)
      } else if (entry.isFile()) {
        seen[path] = createHash('sha256')
          .update(readFileSync(join(folder, path)))
          .digest('hex')
      } else {
        seen[path] = 'other'
      }
    }
  }
  walk('')
  return seen
}

/** A repository with one commit, ready to be armed. */
export async function sampleRepository(folder, env) {
  mkdirSync(folder, { recursive: true })
  const git = (...args) => run('git', args, { cwd: folder, env })
  await git('init', '-q', '-b', 'work')
  await git('config', 'user.name', 'Test')
  await git('config', 'user.email', 'test@example.invalid')
  writeFileSync(join(folder, 'README.md'), '# Sample\n')
  await git('add', '.')
  await git('commit', '-qm', 'Start')
  return git
}
