// Mounted into a headless DSH by the patch that DevLoop writes for a dispatch: notes what every model call
// used, one line each, so that the notes survive every signal; denies tools; ends a run whose output budget
// is spent. It must not change what the model is asked.
import { appendFileSync } from 'node:fs'

export const name = 'devloop-usage-reporter'
export const inject = ['llm', 'sessions', 'tools']

export function apply(ctx, config) {
  const budget = config.maxOutputTokens ?? Number.POSITIVE_INFINITY
  const denied = new Set(config.deny ?? [])
  let spent = 0
  const note = (line) => {
    try {
      appendFileSync(config.out, `${JSON.stringify(line)}\n`)
    } catch {
      // A full disk must not end the work; the host then reads no usage and keeps its reserve.
    }
  }

  ctx.on('llm/stream', (options, next) => {
    if (spent >= budget) {
      note({ type: 'budget', spent })
      throw new Error(`max-tokens: the output budget of ${budget} tokens is spent`)
    }
    return metered(options, next())
  })

  async function* metered(options, chunks) {
    const call = { type: 'call', model: options.model, purpose: options.purpose, usage: null }
    try {
      for await (const chunk of chunks) {
        if (chunk.type === 'usage') call.usage = chunk.usage
        yield chunk
      }
    } catch (error) {
      call.error = String(error?.code ?? error?.message ?? error)
      throw error
    } finally {
      spent += call.usage?.outputTokens ?? 0
      note(call)
    }
  }

  ctx.on('session/event', (session, event) => {
    if (event.type === 'turn/end') {
      note({ type: 'turn', origin: session.header?.origin ?? null, reason: event.data?.reason ?? null })
    }
  })

  const guard = (call) => {
    if (denied.has(call.name)) return `${call.name} is not available in this run`
    return call.arguments?.run_in_background
      ? 'nothing may stay behind in the background of this run'
      : undefined
  }
  ctx.effect(() => ctx.tools.guard(guard))
}
