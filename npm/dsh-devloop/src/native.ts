// The one file that knows the addon and where its platform package lies. It answers with data: a missing or
// refused addon is a sentence for the page, never an exception into the host.
import { createRequire } from 'node:module'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sentence } from './config.js'

/** One loop over one project. Every argument and answer is a string of JSON. */
export interface NativeSupervisor {
  /**
   * One tick; the first takes the project and may be refused with a reason (held by another, untrusted).
   * Resolves when its decisions are recorded and its dispatches are under way.
   */
  tick(): Promise<string>
  /** The last view, without waiting for a running tick. */
  view(): string
  command(commandJson: string): Promise<string>
  /** An answer of an agent, `{dispatch, usage?, cut?, end?}`; throws a sentence for what is none. */
  agent(answerJson: string): void
  /** Cancels what is pending and lets go of the project; its leases stay for the next owner. */
  close(): Promise<unknown>
}

export interface NativeModule {
  Supervisor: new (optionsJson: string, notify: (message: string) => void) => NativeSupervisor
  /** Judges a configuration: `{root, enabled, tickIntervalMs, reports}`, every value usable. */
  readConfig(configJson: string): string
  /**
   * Decides on a list of inputs (texts of JSON) from a state document under a policy document, and performs
   * nothing. Resolves to a list of `{decision, refused, digest}`.
   */
  replay(stateJson: string, policyJson: string, inputsJson: string): Promise<string>
}

/** The engine's view of a project, as far as a chat shows it; the page gets all of it. */
export interface EngineView {
  sentence: string
  tasks?: { id: string; stage: string; waits_for: string | null }[]
  questions?: { key: string; text: string; answers: { answer: string; text: string }[] }[]
  /** Instead of all that where the recorded state is not believed: why, what is asked, what can be done. */
  reason?: string
  question?: string
  by_hand?: string[]
}

/** What came of a command, and what the loop does next. */
export interface CommandReport {
  accepted: boolean
  sentence: string
  next: string
}

/** The addon, or why there is none. */
export type NativeState = { ok: true; module: NativeModule; from: string } | { ok: false; error: string }

/** `linux-x64-gnu` and the like: the suffix of platform packages and addon files. */
export function platformName(): string {
  const { platform, arch } = process
  if (platform !== 'linux') return platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`
  const header = (process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined)
    ?.header
  return `linux-${arch}-${header?.glibcVersionRuntime ? 'gnu' : 'musl'}`
}

const packageRoot = dirname(dirname(fileURLToPath(import.meta.url)))
const require = createRequire(import.meta.url)

/** A file of this platform: beside `lib` (a checkout, the test tarball), else in the platform package. */
export function platformFile(name: string, root = packageRoot): string | undefined {
  const local = join(root, name)
  if (existsSync(local)) return local
  try {
    const manifest = require.resolve(`@jhfnetboy/dsh-devloop-${platformName()}/package.json`)
    const packaged = join(dirname(manifest), name)
    return existsSync(packaged) ? packaged : undefined
  } catch {
    return undefined
  }
}

/** How an operator starts the command line of this installation: dsh links no programs. */
export function launcher(): string[] {
  return [process.execPath, join(packageRoot, 'lib', 'bin', 'devloop.js')]
}

/** Loads the addon; never throws. */
export function loadNative(root = packageRoot): NativeState {
  try {
    const platform = platformName()
    const file = platformFile(`devloop.${platform}.node`, root)
    if (file === undefined) {
      return {
        ok: false,
        error: `no engine for ${platform}: the package @jhfnetboy/dsh-devloop-${platform} is not installed`,
      }
    }
    const module = require(file) as Partial<NativeModule>
    if (typeof module.Supervisor !== 'function' || typeof module.readConfig !== 'function') {
      return { ok: false, error: `${file} is not the engine of DevLoop` }
    }
    return { ok: true, module: module as NativeModule, from: file }
  } catch (error) {
    return { ok: false, error: `the engine was found but does not load: ${sentence(error)}` }
  }
}
