// A model provider for tests: one server on 127.0.0.1 that speaks what the command lines speak (Anthropic
// messages, OpenAI responses, chat completions) and answers as a function says. It must not know DevLoop.
import { createServer } from 'node:http'

/** Tokens of an answer that names none: `input` is the whole input, `cached` its part read from a cache. */
const USED = { input: 1200, cached: 200, written: 0, output: 40, reasoning: 0 }

/**
 * Starts a server. `answer(call, n)` is asked for every model call and returns a step:
 *   { text }                            says this and ends its turn
 *   { tools: [{ name, input }] }        calls tools; a string as input is a free-form call
 *   { status, body, headers }           an HTTP answer as it is
 *   { hang: true }                      never answers; { hangAfter: n } goes silent after n events
 *   { cutAfter: n }                     closes the connection after n events
 * with `used` (over USED), `stop` (why it ended, in the words of its interface) and `model`.
 * A call is { dialect, model, prompt, turns, tools, side, headers, body }: `prompt` is every text of the
 * user, `turns` counts the model's own messages, `side` is true when no tools are offered.
 */
export async function startModelServer(answer) {
  const calls = []
  const sockets = new Set()
  const server = createServer((req, res) => {
    serve(req, res).catch((error) => {
      if (!res.headersSent) res.writeHead(500)
      res.end(String(error))
    })
  })

  async function serve(req, res) {
    const chunks = []
    for await (const chunk of req) chunks.push(chunk)
    const path = req.url.split('?')[0]
    const dialect = Object.keys(DIALECTS).find((name) => path.endsWith(DIALECTS[name].path))
    if (req.method !== 'POST' || !dialect) {
      if (path.endsWith('/models')) return json(res, 200, { object: 'list', data: [], models: [] })
      return json(res, req.method === 'HEAD' ? 200 : 404, { error: { message: `no ${path}` } })
    }
    const body = JSON.parse(Buffer.concat(chunks).toString())
    const call = { dialect, headers: req.headers, model: body.model, body, ...DIALECTS[dialect].read(body) }
    call.side = call.tools.length === 0
    const n = calls.push(call)
    const step = (await answer(call, n)) ?? { status: 400, body: { error: { message: 'no step' } } }
    call.step = step
    if (step.hang) return
    if (step.status) return json(res, step.status, step.body ?? {}, step.headers)
    const full = { ...step, used: { ...USED, ...step.used }, model: step.model ?? body.model }
    if (!body.stream) return json(res, 200, DIALECTS[dialect].whole(full, n))
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    let sent = 0
    for (const event of DIALECTS[dialect].events(full, n)) {
      if (sent === step.hangAfter) return
      if (sent === step.cutAfter) return res.socket.destroy()
      const name = event.type && dialect !== 'chat' ? `event: ${event.type}\n` : ''
      res.write(`${name}data: ${JSON.stringify(event)}\n\n`)
      sent += 1
    }
    res.end(dialect === 'chat' ? 'data: [DONE]\n\n' : '')
  }

  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise((listening, fail) => {
    server.once('error', fail)
    server.listen(0, '127.0.0.1', listening)
  })
  const url = `http://127.0.0.1:${server.address().port}`
  const close = () => {
    for (const socket of sockets) socket.destroy()
    return new Promise((closed) => server.close(closed))
  }
  return { url, calls, close }
}

function json(res, status, value, headers = {}) {
  res.writeHead(status, { 'content-type': 'application/json', ...headers })
  res.end(JSON.stringify(value))
}

/** The text of a message's content in any of the three forms. */
function textOf(content) {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => part.text ?? (part.content ? textOf(part.content) : '')).join('\n')
}

const byRole = (messages, role) => messages.filter((message) => message.role === role)
const prompt = (messages) =>
  byRole(messages, 'user')
    .map((message) => textOf(message.content))
    .join('\n')

const DIALECTS = {
  anthropic: {
    path: '/v1/messages',
    read: (body) => ({
      prompt: prompt(body.messages),
      turns: byRole(body.messages, 'assistant').length,
      tools: (body.tools ?? []).map((tool) => tool.name),
    }),
    whole: (step, n) => ({
      id: `msg_${n}`,
      type: 'message',
      role: 'assistant',
      model: step.model,
      content: [
        ...(step.text === undefined ? [] : [{ type: 'text', text: step.text }]),
        ...(step.tools ?? []).map((tool, i) => ({
          type: 'tool_use',
          id: `toolu_${n}_${i}`,
          name: tool.name,
          input: tool.input,
        })),
      ],
      stop_reason: step.stop ?? (step.tools ? 'tool_use' : 'end_turn'),
      stop_sequence: null,
      usage: {
        input_tokens: step.used.input - step.used.cached,
        cache_read_input_tokens: step.used.cached,
        cache_creation_input_tokens: step.used.written,
        output_tokens: step.used.output,
      },
    }),
    events: anthropicEvents,
  },
  responses: {
    path: '/responses',
    read: (body) => {
      const items = Array.isArray(body.input) ? body.input : []
      const extra = items.filter((item) => item.type === 'additional_tools')
      const more = extra.flatMap((item) => item.tools ?? [])
      const own = ['function_call', 'custom_tool_call']
      return {
        prompt: prompt(items),
        turns: items.filter((item) => item.role === 'assistant' || own.includes(item.type)).length,
        tools: [...(body.tools ?? []), ...more].map((tool) => tool.name ?? tool.type),
      }
    },
    whole: (step, n) => response(step, n, 'completed'),
    events: responseEvents,
  },
  chat: {
    path: '/chat/completions',
    read: (body) => ({
      prompt: prompt(body.messages),
      turns: byRole(body.messages, 'assistant').length,
      tools: (body.tools ?? []).map((tool) => tool.function?.name),
    }),
    whole: (step, n) => ({
      id: `chat-${n}`,
      object: 'chat.completion',
      model: step.model,
      choices: [
        {
          index: 0,
          finish_reason: chatStop(step),
          message: { role: 'assistant', content: step.text ?? '', tool_calls: chatTools(step, n) },
        },
      ],
      usage: chatUsed(step.used),
    }),
    events: chatEvents,
  },
}

function* anthropicEvents(step, n) {
  const message = DIALECTS.anthropic.whole(step, n)
  const { content, usage, stop_reason, ...rest } = message
  const start = { ...rest, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } }
  yield { type: 'message_start', message: start }
  for (const [index, block] of content.entries()) {
    const isText = block.type === 'text'
    const open = isText ? { type: 'text', text: '' } : { ...block, input: {} }
    yield { type: 'content_block_start', index, content_block: open }
    const delta = isText
      ? { type: 'text_delta', text: block.text }
      : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }
    yield { type: 'content_block_delta', index, delta }
    yield { type: 'content_block_stop', index }
  }
  const delta = { stop_reason, stop_sequence: null }
  yield { type: 'message_delta', delta, usage: { output_tokens: usage.output_tokens } }
  yield { type: 'message_stop' }
}

function response(step, n, status) {
  const output = []
  if (step.text !== undefined) {
    const content = [{ type: 'output_text', text: step.text, annotations: [] }]
    output.push({ type: 'message', id: `msg_${n}`, role: 'assistant', status: 'completed', content })
  }
  for (const [i, tool] of (step.tools ?? []).entries()) {
    const call = { id: `fc_${n}_${i}`, call_id: `call_${n}_${i}`, name: tool.name, status: 'completed' }
    output.push(
      typeof tool.input === 'string'
        ? { type: 'custom_tool_call', ...call, input: tool.input }
        : { type: 'function_call', ...call, arguments: JSON.stringify(tool.input) },
    )
  }
  const { input, cached, output: out, reasoning } = step.used
  return {
    id: `resp_${n}`,
    object: 'response',
    created_at: 1,
    model: step.model,
    status,
    output,
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: out,
      output_tokens_details: { reasoning_tokens: reasoning },
      total_tokens: input + out,
    },
  }
}

function* responseEvents(step, n) {
  const whole = response(step, n, 'completed')
  const open = { ...whole, status: 'in_progress', output: [], usage: null }
  yield { type: 'response.created', response: open }
  if (step.failed) {
    yield { type: 'response.failed', response: { ...open, status: 'failed', error: step.failed } }
    return
  }
  for (const [output_index, item] of whole.output.entries()) {
    const started = { ...item, status: 'in_progress', ...(item.content ? { content: [] } : {}) }
    yield { type: 'response.output_item.added', output_index, item: started }
    yield { type: 'response.output_item.done', output_index, item }
  }
  if (step.stop) {
    const incomplete_details = { reason: step.stop }
    yield { type: 'response.incomplete', response: { ...whole, status: 'incomplete', incomplete_details } }
    return
  }
  yield { type: 'response.completed', response: whole }
}

const chatStop = (step) => step.stop ?? (step.tools ? 'tool_calls' : 'stop')

function chatTools(step, n) {
  if (!step.tools) return undefined
  return step.tools.map((tool, index) => ({
    index,
    id: `call_${n}_${index}`,
    type: 'function',
    function: { name: tool.name, arguments: JSON.stringify(tool.input) },
  }))
}

function chatUsed({ input, cached, output, reasoning }) {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_cache_hit_tokens: cached,
    prompt_cache_miss_tokens: input - cached,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  }
}

function* chatEvents(step, n) {
  const base = { id: `chat-${n}`, object: 'chat.completion.chunk', created: 1, model: step.model }
  const part = (delta, finish_reason = null) => ({ ...base, choices: [{ index: 0, delta, finish_reason }] })
  yield part({ role: 'assistant', content: '' })
  if (step.text !== undefined) yield part({ content: step.text })
  const tools = chatTools(step, n)
  if (tools) yield part({ tool_calls: tools })
  yield part({}, chatStop(step))
  yield { ...base, choices: [], usage: chatUsed(step.used) }
}
