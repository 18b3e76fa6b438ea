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

/** An agent and what is read of its session. */
export interface Agent {
  id: string
  session: {
    header: { parentSession?: string }
    events: { type: string; data?: { reason?: TurnEnd } }[]
  }
}
export interface AgentHandle {
  agent: Agent
  dispose(): Promise<void>
}
/** Why a turn ended. */
export interface TurnEnd {
  kind: string
  error?: { code?: string; message?: string; status?: number; providerRetryAfterMs?: number }
}
export interface SubagentResult {
  output: { text?: string }[]
  structured?: unknown
  diagnostic?: string
  stopReason: string
}
export interface Subagent {
  localAgent?: Agent
  result: Promise<SubagentResult>
  dispose(): Promise<void>
}

/** One call of a tool, of a model, and one step of a turn, as far as they are looked at. */
export interface ToolCall {
  name: string
  arguments?: unknown
  agent?: { id: string }
}
export interface LlmCall {
  sessionId?: string
}
export interface Chunk {
  type: string
  usage?: { outputTokens?: number }
  reason?: { kind: string }
}
export interface PreStep {
  agent?: { id: string }
  messages?: { source: { kind: string } }[]
}

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
  /** Listens for as long as the context lives; `prepend` puts it around all listeners so far. */
  on(event: string, listener: (...args: never[]) => unknown, prepend?: boolean): unknown
  webServer?: { register(route: Route): () => void }
  agents?: {
    create(options: {
      sessionId: string
      meta: { cwd: string; agentPreset?: string }
      agentOptions: { provider: string; model: string }
      signal: AbortSignal
      setup: (agent: unknown) => Promise<void>
    }): Promise<AgentHandle>
    get(session: string): Agent | undefined
  }
  subagents?: { start(provider: string, request: object): Promise<Subagent> }
  tools?: {
    schemas(scope: unknown): { name: string }[]
    guard(judge: (call: ToolCall) => string | undefined): () => void
  }
  agentDefaultModel?: { currentSelection(): { provider: string; model: string } }
  permissionPresets?: { set(session: unknown, preset: string): void }
  approval?: { setPolicy(agent: unknown, policy: string): void }
  shellEnv?: {
    register(contributor: {
      name: string
      variables: Record<string, { description: string }>
      resolve: (call: ToolCall) => Record<string, string>
    }): () => void
  }
  commands?: {
    register(command: {
      name: string
      description: string
      input: { hint: string }
      handler: (call: CommandCall) => Promise<CommandAnswer>
    }): () => void
  }
}
