// The parts of a DSH context that the plugin touches, as types only. It imports no host package: what is
// written here was seen on 0.1.0-rc.8, and everything optional is asked for at run time.
import type { IncomingMessage, ServerResponse } from 'node:http'

/** A route of the host's web server; raw node:http objects. */
export interface Route {
  kind: 'exact' | 'prefix'
  path: string
  handler: (req: IncomingMessage, res: ServerResponse) => void | Promise<void>
}

/** What a slash command gets and gives. */
export interface CommandCall {
  rawInput: string
  agent?: { session?: { header?: { cwd?: unknown; meta?: { cwd?: unknown } } } }
}
export type CommandAnswer = { kind: 'success'; text: string } | { kind: 'error'; text: string }

/** A Cordis context, as far as this plugin needs one. */
export interface HostContext {
  /** Runs `start` now and its disposer (awaited) when the plugin is unloaded. */
  effect(start: () => () => void | Promise<void>, label?: string): unknown
  /** Runs `use` once all named services are there, and again whenever they come back. */
  inject(services: string[], use: (sub: HostContext) => void): unknown
  /** A service, or undefined where the profile has none. */
  get(service: string): unknown
  /** From the `timer` service. */
  interval(callback: () => void, ms: number): unknown
  webServer?: { register(route: Route): () => void }
  commands?: {
    register(command: {
      name: string
      description: string
      input: { hint: string }
      handler: (call: CommandCall) => Promise<CommandAnswer>
    }): () => void
  }
}
