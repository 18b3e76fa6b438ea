// The beats: one loop per project, ticked by the host's timer and at once when a dispatch has finished. It
// decides nothing: it keeps ticks from overlapping, keeps every failure inside, and closes what it opened.
import { sep } from 'node:path'
import { agentPort } from './agent-port.js'
import type { PortParts } from './agent-port.js'
import { readRegistry, sentence } from './config.js'
import type { PluginConfig, Project } from './config.js'
import type { HostContext } from './host.js'
import type { CommandReport, EngineView, NativeState, NativeSupervisor } from './native.js'

/** Ticks that may follow each other without a beat of the timer between them. */
const MAX_WAKES_PER_BEAT = 32

/** One project as the page shows it; `view` is the engine's own document, null before its first tick. */
export interface ProjectView extends Project {
  error: string | null
  view: EngineView | null
}

/** The loop of one project. */
export class ProjectLoop {
  #supervisor: NativeSupervisor | undefined
  #ticking: Promise<void> | undefined
  #again = false
  #wakes = 0
  #closed = false
  #error: string | null = null
  readonly #port: ReturnType<typeof agentPort>

  constructor(
    readonly project: Project,
    readonly settings: { home: string; config: string },
    readonly native: NativeState,
    agents: PortParts['agents'],
  ) {
    this.#port = agentPort({
      wake: () => this.wake(),
      report: (problem) => (this.#error = problem),
      answer: (json) => this.#supervisor?.agent(json),
      agents,
    })
  }

  /** A beat of the timer. A tick that is still running is left alone. */
  beat(): void {
    this.#wakes = 0
    this.#start()
  }

  /** A finished dispatch or an operator's command: tick now, or right after the running tick. */
  wake(): void {
    if (this.#ticking) this.#again = true
    else if (this.#wakes++ < MAX_WAKES_PER_BEAT) this.#start()
  }

  #start(): void {
    if (this.#closed || this.#ticking) return
    this.#again = false
    this.#ticking = this.#tick().finally(() => {
      this.#ticking = undefined
      if (this.#again) this.wake()
    })
  }

  async #tick(): Promise<void> {
    try {
      await this.#engine().tick()
      this.#error = null
    } catch (error) {
      this.#error = sentence(error)
    }
  }

  /** The engine of this project; it takes the project at its first tick or command. */
  #engine(): NativeSupervisor {
    if (this.#closed) throw new Error('the plugin is being unloaded')
    if (!this.native.ok) throw new Error(this.native.error)
    const { home, config } = this.settings
    const options = { root: this.project.root, dshHome: home, config }
    this.#supervisor ??= new this.native.module.Supervisor(JSON.stringify(options), this.#port.notify)
    return this.#supervisor
  }

  /** Hands an operator's command to the engine and ticks at once. */
  async command(command: object): Promise<CommandReport> {
    const report = JSON.parse(await this.#engine().command(JSON.stringify(command))) as CommandReport
    this.wake()
    return report
  }

  view(): ProjectView {
    const error = this.native.ok ? this.#error : this.native.error
    const shown: ProjectView = { ...this.project, error, view: null }
    try {
      if (this.#supervisor) shown.view = JSON.parse(this.#supervisor.view())
    } catch (error) {
      shown.error ??= sentence(error)
    }
    return shown
  }

  /** Lets go: the engine cancels what is pending, and nothing ticks any more. */
  async close(): Promise<void> {
    this.#closed = true
    try {
      await Promise.all([this.#ticking, this.#supervisor?.close()])
    } catch (error) {
      this.#error = sentence(error)
    } finally {
      // Not earlier: the engine ends its agents through it.
      this.#port.dispose()
    }
  }
}

/** Registers something with the host while `ctx` lives; a refusal is reported, and the loops go on. */
export function mount(ctx: HostContext, loops: Loops, what: string, register: () => unknown): void {
  ctx.effect(() => {
    try {
      const dispose = register()
      return () => (typeof dispose === 'function' ? dispose() : undefined)
    } catch (error) {
      loops.config.reports.push(`${what} is not there: ${sentence(error)}`)
      return () => undefined
    }
  }, `devloop: ${what}`)
}

/** All loops of this profile. */
export class Loops {
  readonly #loops = new Map<string, ProjectLoop>()
  readonly #leaving = new Set<Promise<void>>()
  #registryError: string | null = null
  #closed = false
  #beats = 0

  constructor(
    readonly config: PluginConfig,
    readonly native: NativeState,
    readonly home: string,
    readonly agents: PortParts['agents'],
  ) {}

  /** One beat of the host's timer: reads the list of projects again, then ticks each. Never throws. */
  beat(): void {
    if (this.#closed) return
    try {
      this.#follow()
      this.#beats++
      if (this.config.enabled) for (const loop of this.#loops.values()) loop.beat()
    } catch (error) {
      this.#registryError = sentence(error)
    }
  }

  /** Takes up what is newly listed and lets go of what is not listed any more. */
  #follow(): void {
    const registry = readRegistry(this.config.root, this.home)
    this.#registryError = registry.error ?? null
    const settings = { home: this.home, config: this.config.json }
    for (const project of registry.projects) {
      if (this.#loops.has(project.id)) continue
      this.#loops.set(project.id, new ProjectLoop(project, settings, this.native, this.agents))
    }
    // A list that cannot be read takes nobody's loop away.
    if (registry.error) return
    for (const [id, loop] of this.#loops) {
      if (registry.projects.some((project) => project.id === id)) continue
      this.#loops.delete(id)
      const leaving = loop.close().finally(() => this.#leaving.delete(leaving))
      this.#leaving.add(leaving)
    }
  }

  /** What the page and the commands read. */
  view() {
    const { native, config } = this
    return {
      engine: { ok: native.ok, detail: native.ok ? native.from : native.error },
      enabled: config.enabled,
      reports: config.reports,
      beats: this.#beats,
      registryError: this.#registryError,
      projects: [...this.#loops.values()].map((loop) => loop.view()),
    }
  }

  /** The loop of a folder (or of one around it), else the profile's own. */
  find(folder = ''): ProjectLoop | undefined {
    const depth = (loop: ProjectLoop): number => loop.project.root.length
    const around = ({ project: { root } }: ProjectLoop): boolean => (folder + sep).startsWith(root + sep)
    const all = [...this.#loops.values()]
    return all.filter(around).sort((a, b) => depth(b) - depth(a))[0] ?? all.find((loop) => loop.project.own)
  }

  /** Lets go of every project and waits until that is done. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#leaving, ...[...this.#loops.values()].map((loop) => loop.close())])
  }
}
