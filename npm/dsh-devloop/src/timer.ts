// The beats: one loop per project, ticked by the host's timer and at once when a dispatch has finished. It decides
// nothing; it only keeps ticks from overlapping, keeps every failure inside, and closes what it opened.
import { agentPort } from './agent-port.js'
import { readRegistry, sentence } from './config.js'
import type { PluginConfig, Project } from './config.js'
import type { NativeModule, NativeState, NativeSupervisor } from './native.js'

/** Ticks that may follow each other without a beat of the timer between them. */
const MAX_WAKES_PER_BEAT = 32

/** One project as the page shows it; `view` is the engine's own document. */
export interface ProjectView extends Project {
  loop: 'running' | 'off' | 'closed'
  error: string | null
  view: unknown
}

/** The loop of one project. */
export class ProjectLoop {
  #supervisor: NativeSupervisor | undefined
  #opening: Promise<NativeSupervisor> | undefined
  #ticking: Promise<void> | undefined
  #again = false
  #wakes = 0
  #closed = false
  #error: string | null = null
  readonly #port

  constructor(readonly project: Project, readonly config: PluginConfig, readonly native: NativeModule, readonly home: string) {
    this.#port = agentPort(() => this.wake(), (problem) => { this.#error = problem })
  }

  /** A beat of the timer. A tick that is still running is left alone. */
  beat(): void {
    this.#wakes = 0
    this.#start()
  }

  /** A finished dispatch or an operator's command: tick now, or right after the running tick. */
  wake(): void {
    if (this.#ticking) {
      this.#again = true
      return
    }
    if (this.#wakes++ < MAX_WAKES_PER_BEAT) this.#start()
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
      const supervisor = await this.#open()
      await supervisor.tick()
      this.#error = null
    } catch (error) {
      this.#error = sentence(error)
    }
  }

  /** The open supervisor; two callers at once share one opening. A refusal is tried again at the next beat. */
  #open(): Promise<NativeSupervisor> {
    if (this.#supervisor) return Promise.resolve(this.#supervisor)
    this.#opening ??= this.#create().finally(() => { this.#opening = undefined })
    return this.#opening
  }

  async #create(): Promise<NativeSupervisor> {
    const options = { root: this.project.root, devloopHome: this.home, config: this.config.loop }
    const supervisor = new this.native.Supervisor(JSON.stringify(options), this.#port.notify)
    await supervisor.open()
    this.#supervisor = supervisor
    return supervisor
  }

  /** Hands an operator's command to the engine and ticks at once. */
  async command(command: object): Promise<unknown> {
    if (this.#closed) throw new Error('the plugin is being unloaded')
    const supervisor = await this.#open()
    const answer: unknown = JSON.parse(await supervisor.command(JSON.stringify(command)))
    this.wake()
    return answer
  }

  view(): ProjectView {
    const shown: ProjectView = { ...this.project, loop: this.#closed ? 'closed' : this.config.enabled ? 'running' : 'off', error: this.#error, view: null }
    try {
      if (this.#supervisor) shown.view = JSON.parse(this.#supervisor.view())
    } catch (error) {
      shown.error ??= sentence(error)
    }
    return shown
  }

  /** The state in words, for a chat. */
  statusText(): string {
    const shown = this.view()
    return [`${shown.name} (${shown.root}): ${shown.loop}`, shown.error, JSON.stringify(shown.view, null, 1)].filter(Boolean).join('\n')
  }

  /** Lets go: nothing pending is left, and the engine is closed even when it was still being opened. */
  async close(): Promise<void> {
    this.#closed = true
    this.#port.dispose()
    await this.#opening?.catch(() => undefined)
    const supervisor = this.#supervisor
    this.#supervisor = undefined
    try {
      await Promise.all([this.#ticking, supervisor?.close()])
    } catch (error) {
      this.#error = sentence(error)
    }
  }
}

/** What the page and the commands read. */
export interface LoopsView {
  engine: { ok: boolean; detail: string }
  reports: string[]
  /** Beats of the timer since the start. */
  beats: number
  registryError: string | null
  projects: ProjectView[]
}

/** All loops of this profile. */
export class Loops {
  readonly #loops = new Map<string, ProjectLoop>()
  readonly #leaving = new Set<Promise<void>>()
  #idle: Project[] = []
  #registryError: string | null = null
  #closed = false
  #beats = 0

  constructor(readonly config: PluginConfig, readonly native: NativeState, readonly home: string) {}

  /** One beat of the host's timer: reads the list of projects again, then ticks each of them. Never throws. */
  beat(): void {
    if (this.#closed) return
    try {
      this.#follow()
    } catch (error) {
      this.#registryError = sentence(error)
    }
    this.#beats++
    if (this.config.enabled) for (const loop of this.#loops.values()) loop.beat()
  }

  /** Opens what is newly listed and lets go of what is not listed any more. */
  #follow(): void {
    const registry = readRegistry(this.config.root, this.home)
    this.#registryError = registry.error ?? null
    if (!this.native.ok) {
      this.#idle = registry.projects
      return
    }
    const listed = new Set(registry.projects.map((p) => p.id))
    for (const project of registry.projects) {
      if (this.#loops.has(project.id)) continue
      this.#loops.set(project.id, new ProjectLoop(project, this.config, this.native.module, this.home))
    }
    for (const [id, loop] of this.#loops) {
      // A list that cannot be read takes nobody's loop away.
      if (listed.has(id) || registry.error) continue
      this.#loops.delete(id)
      const leaving = loop.close().finally(() => this.#leaving.delete(leaving))
      this.#leaving.add(leaving)
    }
  }

  view(): LoopsView {
    const engine = this.native.ok ? { ok: true, detail: this.native.from } : { ok: false, detail: this.native.error }
    const idle = this.#idle.map((p): ProjectView => ({ ...p, loop: 'off', error: engine.detail, view: null }))
    const projects = this.native.ok ? [...this.#loops.values()].map((loop) => loop.view()) : idle
    return { engine, reports: this.config.reports, beats: this.#beats, registryError: this.#registryError, projects }
  }

  /** The loop of a folder (or of one inside it), else the profile's own. */
  find(folder: string | undefined): ProjectLoop | undefined {
    const all = [...this.#loops.values()]
    const inside = (root: string): boolean => folder === root || folder?.startsWith(root + '/') === true
    const fits = all.filter((loop) => inside(loop.project.root)).sort((a, b) => b.project.root.length - a.project.root.length)
    return fits[0] ?? all.find((loop) => loop.project.own)
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#leaving, ...[...this.#loops.values()].map((loop) => loop.close())])
  }
}
