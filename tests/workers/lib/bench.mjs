// Nights with real command lines: a private home, a sample project, the loop's own program, and a model
// server on this machine. It knows how the command lines are installed and started, not what they answer.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'

import { installHost, repository, sampleRepository } from '../../plugin/lib/harness.mjs'

const run = promisify(execFile)
const here = join(repository, 'tests', 'workers')
const tools = join(repository, 'tests', 'plugin', 'node_modules', '.bin')
const platform = `${process.platform}-${process.arch}`
const target = process.env.CARGO_TARGET_DIR
  ? resolve(process.env.CARGO_TARGET_DIR)
  : join(repository, 'target')
const program = process.env.DEVLOOP_PROGRAM ?? join(target, 'debug', 'devloop')

/** How npm says that the registry cannot be reached, does not let us in, or does not have a package. */
const REFUSALS =
  /\b(E40[134]|E5\d\d|ETARGET|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT)\b/

/** The command lines of the lock file and the pinned DSH; the reason instead when the registry refuses. */
export async function install() {
  const bin = (name) => join(here, 'node_modules', '.bin', name)
  const clis = {
    claude: join(here, `node_modules/@anthropic-ai/claude-code-${platform}/claude`),
    codex: bin('codex'),
    qwen: bin('qwen'),
    opencode: join(here, `node_modules/opencode-${platform}/bin/opencode`),
  }
  const missing = () => Object.keys(clis).filter((name) => !existsSync(clis[name]))
  if (missing().length > 0) {
    // Not `npm ci`: it asks the registry for the packages of every other platform too.
    const words = ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund']
    try {
      await run('npm', words, { cwd: here, timeout: 600_000 })
    } catch (error) {
      // npm prints warnings before the reason and its own help behind it.
      const lines = String(error.stderr || error)
        .split('\n')
        .filter((line) => !line.startsWith('npm warn') && line.replace('npm error', '').trim())
      const reason = lines.slice(0, 4).join(' ')
      // Whatever is no refusal is a fault of this project, and fails.
      if (!REFUSALS.test(reason)) throw error
      return { refused: `the command lines could not be installed: ${reason}` }
    }
  }
  if (missing().length > 0) {
    return { refused: `the registry has no ${missing().join(', no ')} for ${platform}` }
  }
  return { ...clis, dsh: await installHost() }
}

/** The options of a test that needs them: only a registry that refuses keeps one from running. */
export function howToRun(clis) {
  const options = { timeout: 240_000 }
  if (clis.refused) {
    console.log(`skipped: ${clis.refused}`)
    options.skip = clis.refused
  }
  return options
}

/** One project with its loop. */
export class Bench {
  constructor(clis, server) {
    this.clis = clis
    this.server = server
    this.box = mkdtempSync(join(tmpdir(), 'devloop-workers-'))
    this.root = join(this.box, 'project')
    this.home = join(this.box, 'home')
    this.temporary = join(this.box, 'tmp')
    for (const folder of [join(this.home, '.dsh'), this.temporary]) mkdirSync(folder, { recursive: true })
    this.env = {
      PATH: [tools, process.env.PATH].join(delimiter),
      HOME: this.home,
      TMPDIR: this.temporary,
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_CONFIG_NOSYSTEM: '1',
      ANTHROPIC_BASE_URL: server.url,
      ANTHROPIC_API_KEY: 'key-of-claude',
      CODEX_TEST_KEY: 'key-of-codex',
      DEEPSEEK_BASE_URL: server.url,
      GH_TOKEN: 'key-of-the-forge',
    }
    // DSH's key lies only in DSH's own list.
    const list = join(this.home, '.dsh', '.credentials.yaml')
    writeFileSync(list, 'DEEPSEEK_API_KEY: key-of-dsh\nOTHER_API_KEY: foreign\n', { mode: 0o600 })
  }

  /** Makes the project and arms it; `routes` are the keys of the configuration about routes. */
  async arm(routes) {
    this.git = await sampleRepository(this.root, this.env)
    await run(program, ['init', this.root, '--goal', 'Say hello and goodbye.'], { env: this.env })
    // Its own provider, since the built-in one cannot be sent elsewhere without a detour.
    const provider = `{name="here",base_url="${this.server.url}/v1",env_key="CODEX_TEST_KEY",
      wire_api="responses",request_max_retries=0,stream_max_retries=0,stream_idle_timeout_ms=60000}`
    const table = `model_providers.here=${provider.replace(/\s+/g, '')}`
    const words = ['-c', 'model_provider="here"', '-c', table]
    const config = {
      agentBackend: 'routed',
      tickIntervalMs: 500,
      claude: { argv: [this.clis.claude] },
      codex: { argv: [this.clis.codex], args: words, env: ['CODEX_TEST_KEY'] },
      dsh: { argv: [this.clis.dsh] },
      ...routes,
    }
    writeFileSync(join(this.root, '.devloop', 'config.json'), JSON.stringify(config, null, 1))
  }

  /** Changes the configuration before the loop reads it. */
  change(edit) {
    const path = join(this.root, '.devloop', 'config.json')
    const config = JSON.parse(readFileSync(path, 'utf8'))
    edit(config)
    writeFileSync(path, JSON.stringify(config, null, 1))
  }

  /** Commits settings that a worktree may bring along, none of which may reach a model; their paths. */
  async bait() {
    const files = {
      'AGENTS.md': 'BAIT of the instructions\n',
      'CLAUDE.md': 'BAIT of the instructions\n',
      '.dsh/skills/bait/SKILL.md': '---\nname: bait\ndescription: BAIT of a skill\n---\nBAIT\n',
      '.agents/skills/bait/SKILL.md': '---\nname: bait2\ndescription: BAIT of a skill\n---\nBAIT\n',
    }
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.root, path)), { recursive: true })
      writeFileSync(join(this.root, path), text)
    }
    await this.git('add', ...Object.keys(files))
    await this.git('commit', '-qm', 'Settings')
    return Object.keys(files)
  }

  /** Starts the loop; `ended` is its exit code and output. */
  loop(words = ['run', '--until-idle']) {
    const stdio = ['ignore', 'pipe', 'pipe']
    const child = spawn(program, [...words, this.root], { env: this.env, stdio })
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      output += chunk
    })
    const ended = new Promise((settle) => child.on('close', (code) => settle({ code, output })))
    return { child, ended }
  }

  async status() {
    // It exits with 1 when a person is needed.
    const asked = run(program, ['status', '--json', this.root], { env: this.env })
    const told = await asked.catch((error) => error)
    return JSON.parse(told.stdout)
  }

  /** Every event of the journal, in order. */
  events() {
    const lines = readFileSync(join(this.root, '.devloop', 'EVENTS.jsonl'), 'utf8').trim().split('\n')
    return lines.flatMap((line) => JSON.parse(line).events ?? [])
  }

  /** Processes of this project's dispatches that are alive now. */
  workers() {
    const found = []
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const env = readFileSync(`/proc/${pid}/environ`, 'utf8')
        if (env.includes('DEVLOOP_DISPATCH=') && env.includes(this.temporary)) found.push(Number(pid))
      } catch {
        // It ended, or is not ours to look at.
      }
    }
    return found
  }

  /** Resolves when no dispatch lives; the test's own limit ends the wait. */
  async emptied() {
    while (this.workers().length > 0) await pause(50)
  }

  leftovers() {
    return readdirSync(this.temporary).filter((name) => name.startsWith('devloop-'))
  }

  async end() {
    await this.server.close()
    rmSync(this.box, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
}
