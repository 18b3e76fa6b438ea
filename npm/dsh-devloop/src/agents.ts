// Agents of this DSH as workers, planners and reviewers: one subagent for each dispatch, in the dispatch's
// own folder, with its own model, no more tools than its role needs, and nobody to ask. It judges no result,
// and agents that are not the loop's are left alone.
import { randomUUID } from 'node:crypto'
import { sentence } from './config.js'
import type {
  AgentHandle,
  Chunk,
  HostContext,
  LlmCall,
  PreStep,
  Subagent,
  SubagentResult,
  ToolCall,
} from './host.js'

/** What the engine asks for; `reads`: nothing may be written. */
export interface AgentRequest {
  dispatch: string
  label: string
  /** Which kind of subagent. */
  provider: string
  /** Whose model and which; null: DSH's defaults. */
  llm: string | null
  model: string | null
  /** Output tokens of all calls together. */
  maxTokens: number | null
  cwd: string
  prompt: string
  schema: object
  reads: boolean
  /** Stands in the environment of its shells. */
  marker: string
}

/** How one ended, in the words of DSH for the end of a turn. */
type End =
  | { kind: 'refused'; why: string }
  | { kind: 'completed'; structured?: unknown; text: string }
  | { kind: 'aborted' | 'max-tokens' }
  | { kind: 'error'; code: string; message: string; status?: number; retryAfterMs?: number }

/** Takes the use of one model call; nothing: the call may be billed and did not say for what. */
type Used = (usage?: object) => void

interface Run {
  request: AgentRequest
  used: Used
  signal: AbortSignal
  /** Output tokens so far. */
  spent: number
  over: boolean
}

const SERVICES = [
  'agents',
  'subagents',
  'tools',
  'llm',
  'agentDefaultModel',
  'permissionPresets',
  'approval',
]
/** How long a dispatch waits for these services: a loop starts before its host is complete. */
const SERVICES_WAIT_MS = 10_000
/** What the engine looks for in the environment of processes; DSH hands on names of its own form only. */
const MARKER_VAR = 'DSH_DEVLOOP_DISPATCH'
/** Every other tool is taken away: it writes, outlives the run, asks somebody, or is not known. */
const READS = new Set(['read', 'read_image', 'glob', 'grep', 'structured_output'])
const WORKS = new Set([
  ...READS,
  'write',
  'edit',
  'str_replace_editor',
  'bash',
  'pwsh',
  'todo_write',
  'web_search',
  'run_code',
])
/** Where the messages of a step may come from; instructions and skills of the worktree are none of these. */
const SOURCES = new Set(['user', 'plugin'])

/** The agents of one DSH, for all projects of its profile. */
export class Agents {
  #ctx: HostContext | undefined
  readonly #waiting = new Set<(ctx: HostContext) => void>()
  /** By the id of the session that stands above the run's own. */
  readonly #runs = new Map<string, Run>()

  /** Watches over the agents of `ctx` for as long as it lives, and its services come and go. */
  mount(ctx: HostContext): void {
    ctx.inject(SERVICES, (sub) => {
      sub.effect(() => {
        this.#ctx = sub
        for (const take of this.#waiting) take(sub)
        return () => {
          if (this.#ctx === sub) this.#ctx = undefined
        }
      }, 'devloop.agents')
      const stream = (call: LlmCall, next: () => AsyncIterable<Chunk>) => this.#stream(call, next)
      sub.on('llm/stream', stream, true)
      sub.on('agent/pre-step', (step: PreStep, next: () => Promise<PreStep>) => this.#step(step, next), true)
      sub.effect(() => sub.tools?.guard((call) => this.#denied(call)) ?? (() => undefined), 'devloop.guard')
    })
    ctx.inject(['shellEnv', ...SERVICES], (sub) => {
      const variables = { [MARKER_VAR]: { description: 'The dispatch of DevLoop it works for.' } }
      const resolve = (call: ToolCall): Record<string, string> => {
        const run = this.#of(call.agent?.id)
        return run ? { [MARKER_VAR]: run.request.marker } : {}
      }
      const mark = { name: 'devloop', variables, resolve }
      sub.effect(() => sub.shellEnv?.register(mark) ?? (() => undefined), 'devloop.marker')
    })
  }

  /** Runs one to its end; nothing of it lives when this resolves. Never rejects. */
  async run(request: AgentRequest, used: Used, signal: AbortSignal): Promise<End> {
    const run: Run = { request, used, signal, spent: 0, over: false }
    const above = `devloop-${randomUUID()}`
    const handles: { dispose(): Promise<void> }[] = []
    let child: Subagent | undefined
    try {
      const ctx = await this.#services(signal)
      if (!ctx) return { kind: 'refused', why: `this DSH has no agents for plugins (${SERVICES.join(', ')})` }
      this.#runs.set(above, run)
      const parent = await open(ctx, run, above)
      handles.push(parent)
      child = await start(ctx, run, parent)
      handles.push(child)
      return endOf(await child.result, child)
    } catch (error) {
      if (signal.aborted) return { kind: 'aborted' }
      if (!child) return { kind: 'refused', why: sentence(error) }
      return { kind: 'error', code: 'UNKNOWN', message: sentence(error) }
    } finally {
      run.over = true
      for (const handle of handles.reverse()) await handle.dispose().catch(() => undefined)
      this.#runs.delete(above)
    }
  }

  #services(signal: AbortSignal): Promise<HostContext | undefined> {
    if (this.#ctx) return Promise.resolve(this.#ctx)
    return new Promise((settle) => {
      const take = (ctx: HostContext | undefined): void => {
        clearTimeout(late)
        this.#waiting.delete(take)
        settle(ctx)
      }
      const late = setTimeout(() => take(undefined), SERVICES_WAIT_MS)
      signal.addEventListener('abort', () => take(undefined), { once: true })
      this.#waiting.add(take)
    })
  }

  /** The run behind a session, which is that of its agent or the one above it. */
  #of(session: string | undefined): Run | undefined {
    if (session === undefined || this.#runs.size === 0) return undefined
    const above = this.#ctx?.agents?.get(session)?.session.header.parentSession
    return this.#runs.get(session) ?? (above === undefined ? undefined : this.#runs.get(above))
  }

  #stream(call: LlmCall, next: () => AsyncIterable<Chunk>): AsyncIterable<Chunk> {
    const run = this.#of(call.sessionId)
    if (!run) return next()
    const budget = run.request.maxTokens ?? Number.POSITIVE_INFINITY
    if (run.spent >= budget) {
      throw new Error(`max-tokens: the output budget of ${budget} tokens is spent`)
    }
    return metered(run, next())
  }

  async #step(step: PreStep, next: () => Promise<PreStep>): Promise<PreStep> {
    const decided = await next()
    if (!decided.messages || !this.#of(step.agent?.id)) return decided
    return { ...decided, messages: decided.messages.filter((message) => SOURCES.has(message.source.kind)) }
  }

  #denied(call: ToolCall): string | undefined {
    const run = this.#of(call.agent?.id)
    if (!run) return undefined
    if (run.over || run.signal.aborted) return 'this run is over'
    if (!allowed(run).has(call.name)) return `${call.name} is not available in this run`
    const { run_in_background: stays } = (call.arguments ?? {}) as { run_in_background?: unknown }
    return stays ? 'nothing may stay behind in the background of this run' : undefined
  }
}

const allowed = (run: Run): ReadonlySet<string> => (run.request.reads ? READS : WORKS)

async function* metered(run: Run, chunks: AsyncIterable<Chunk>): AsyncGenerator<Chunk> {
  let usage: { outputTokens?: number } | undefined
  let refused = false
  let parts = 0
  try {
    for await (const chunk of chunks) {
      if (chunk.type === 'usage') usage = chunk.usage
      if (chunk.type === 'finish') refused = parts === 0 && chunk.reason?.kind === 'error'
      parts++
      yield chunk
    }
  } finally {
    run.spent += usage?.outputTokens ?? 0
    if (!refused) run.used(usage)
  }
}

function modelOf(ctx: HostContext, { llm, model }: AgentRequest): { provider: string; model: string } {
  const standard = ctx.agentDefaultModel?.currentSelection()
  return { provider: llm ?? standard?.provider ?? '', model: model ?? standard?.model ?? '' }
}

/** The agent above, which says nothing itself: it carries folder, tools, permissions and model. */
async function open(ctx: HostContext, { request, signal }: Run, sessionId: string): Promise<AgentHandle> {
  const presets = ctx.get('agentPresets') as
    | { resolve(): Promise<{ id: string }>; mount(agent: unknown, id: string): Promise<unknown> }
    | undefined
  const preset = await presets?.resolve()
  const handle = await ctx.agents!.create({
    sessionId,
    meta: { cwd: request.cwd, ...(preset ? { agentPreset: preset.id } : {}) },
    agentOptions: modelOf(ctx, request),
    signal,
    setup: async (agent) => {
      if (presets && preset) await presets.mount(agent, preset.id)
    },
  })
  try {
    ctx.permissionPresets!.set(handle.agent.session, request.reads ? 'read-only' : 'workspace-write')
    ctx.approval!.setPolicy(handle.agent, 'never')
  } catch (error) {
    await handle.dispose()
    throw error
  }
  return handle
}

async function start(ctx: HostContext, run: Run, parent: AgentHandle): Promise<Subagent> {
  const { request, signal } = run
  const tools = ctx.tools!.schemas(parent.agent).map((tool) => tool.name)
  return await ctx.subagents!.start(request.provider, {
    parent: parent.agent,
    prompt: [{ type: 'text', text: request.prompt }],
    signal,
    label: request.label,
    agentOptions: modelOf(ctx, request),
    outputSchema: request.schema,
    // `run_code` is how a host may present its tools; what is called inside of it is judged one by one.
    toolFilter: { deny: tools.filter((name) => name !== 'run_code' && !allowed(run).has(name)) },
    maxDepth: 1,
  })
}

function endOf(result: SubagentResult, child: Subagent): End {
  const text = result.output.map((block) => block.text ?? '').join('')
  if (result.structured !== undefined) return { kind: 'completed', structured: result.structured, text }
  const reason = child.localAgent?.session.events.findLast((event) => event.type === 'turn/end')?.data?.reason
  switch (reason?.kind) {
    case 'completed':
      return { kind: 'completed', text }
    case 'aborted':
    case 'max-tokens':
      return { kind: reason.kind }
    default: {
      const { code, message, status, providerRetryAfterMs } = reason?.error ?? {}
      return {
        kind: 'error',
        code: code ?? 'UNKNOWN',
        message: message ?? result.diagnostic ?? `it ended with ${reason?.kind ?? result.stopReason}`,
        ...(status === undefined ? {} : { status }),
        ...(providerRetryAfterMs === undefined ? {} : { retryAfterMs: Math.ceil(providerRetryAfterMs) }),
      }
    }
  }
}
