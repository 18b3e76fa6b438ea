// The one callback from the engine into JavaScript. Messages are JSON strings; whatever arrives, nothing is
// thrown back at the caller.
import { sentence } from './config.js'

/** Makes the callback of one project. After `dispose` it is deaf. */
export function agentPort(
  wake: () => void,
  report: (problem: string) => void,
): { notify: (m: string) => void; dispose: () => void } {
  let deaf = false
  return {
    notify(message) {
      if (deaf) return
      try {
        const parsed = JSON.parse(message) as { kind?: unknown }
        if (parsed.kind === 'wake') wake()
        else report(`the engine said something this plugin does not know: ${message.slice(0, 200)}`)
      } catch (error) {
        report(`a message of the engine could not be used: ${sentence(error)}`)
      }
    },
    dispose() {
      deaf = true
    },
  }
}
