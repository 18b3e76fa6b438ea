// The one callback from the engine into JavaScript. Messages are JSON strings; whatever arrives, nothing is
// thrown back at the caller.
import type { AgentRequest, Agents } from './agents.js'
import { sentence } from './config.js'

/** What the port of one project is made of. */
export interface PortParts {
  /** Tick now. */
  wake: () => void
  /** Takes what went wrong, in a sentence. */
  report: (problem: string) => void
  /** Takes an answer to the engine, as JSON. */
  answer: (json: string) => void
  agents: Pick<Agents, 'run'>
}

type Message = { kind: 'wake' } | { kind: 'stop'; dispatch: string } | ({ kind: 'agent' } & AgentRequest)

/** Makes the callback of one project. After `dispose` it is deaf, and its agents are asked to end. */
export function agentPort(parts: PortParts): { notify: (message: string) => void; dispose: () => void } {
  const { wake, report, answer, agents } = parts
  const running = new Map<string, AbortController>()
  let deaf = false

  async function run(request: AgentRequest): Promise<void> {
    const { dispatch } = request
    const abort = new AbortController()
    running.set(dispatch, abort)
    try {
      const used = (usage?: object): void =>
        answer(JSON.stringify(usage ? { dispatch, usage } : { dispatch, cut: true }))
      const end = await agents.run(request, used, abort.signal)
      answer(JSON.stringify({ dispatch, end }))
    } catch (error) {
      report(`an agent's end could not be told: ${sentence(error)}`)
    } finally {
      running.delete(dispatch)
    }
  }

  return {
    notify(message) {
      if (deaf) return
      try {
        const parsed = JSON.parse(message) as Message
        if (parsed.kind === 'wake') wake()
        else if (parsed.kind === 'agent') void run(parsed)
        else if (parsed.kind === 'stop') running.get(parsed.dispatch)?.abort()
        else report(`the engine said something this plugin does not know: ${message.slice(0, 200)}`)
      } catch (error) {
        report(`a message of the engine could not be used: ${sentence(error)}`)
      }
    },
    dispose() {
      deaf = true
      for (const abort of running.values()) abort.abort()
    },
  }
}
