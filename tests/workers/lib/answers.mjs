// What the scripted models answer: a plan of two tasks, files written with each command line's own tools, and
// reviews that pass. It reads only what a model would read, the prompt.

/** A field of the form at the end of a prompt. */
const asked = (call, field) => new RegExp(`"${field}":\\s*"([^"]+)"`, 'g').exec(lastForm(call))?.[1] ?? ''
const lastForm = (call) => call.prompt.slice(call.prompt.lastIndexOf('<devloop_result>'))

const task = (id) => ({
  id,
  title: `Say ${id}`,
  tier: 'T1',
  risk: 'low',
  dependsOn: [],
  allowedPaths: [`${id}/**`],
  acceptance: [`${id}/said.txt says it`],
  estimate: { lines: 1, files: 1 },
})

/** The task that a prompt is about. */
export const taskOf = (call) => asked(call, 'taskId')

export const roleOf = (call) => {
  const kind = asked(call, 'kind')
  return { plan: 'plan', implementation: 'work', review: 'review' }[kind] ?? 'other'
}

/** The result as its command line wants it: by the tool for it, else as text. */
function result(call, value) {
  const form = call.tools.find((tool) => ['StructuredOutput', 'structured_output'].includes(tool))
  if (form) return { tools: [{ name: form, input: value }] }
  const bare = call.body.text?.format?.type === 'json_schema'
  const text = JSON.stringify(value)
  return { text: bare ? text : `Done.\n\n<devloop_result>${text}</devloop_result>` }
}

export const plan = (call, ids = ['hello', 'goodbye']) =>
  result(call, { version: 1, kind: 'plan', tasks: ids.map(task) })

export const review = (call) =>
  result(call, {
    version: 1,
    kind: 'review',
    taskId: asked(call, 'taskId'),
    reviewedSha: asked(call, 'reviewedSha'),
    verdict: 'PASS',
    notes: '',
    findings: [],
  })

/** The tools by which the command lines run a shell command, with their names for it. */
const SHELLS = { exec_command: 'cmd', bash: 'command', run_shell_command: 'command' }

/** First writes the file with a tool of the command line, then says that it is done. */
export function work(call) {
  const id = asked(call, 'taskId')
  if (call.turns === 0) {
    const shell = call.tools.find((tool) => tool in SHELLS)
    const command = `mkdir -p ${id} && echo ${id} > ${id}/said.txt`
    if (shell) return { tools: [{ name: shell, input: { [SHELLS[shell]]: command, description: 'say it' } }] }
    const [, folder] = /working directory: ([^\s\\]+)/.exec(JSON.stringify(call.body))
    const input = { file_path: `${folder}/${id}/said.txt`, content: `${id}\n` }
    return { tools: [{ name: 'Write', input }] }
  }
  return result(call, {
    version: 1,
    kind: 'implementation',
    taskId: id,
    outcome: 'completed',
    summary: `said ${id}`,
  })
}

/** Does what it is asked. */
export function honest(call) {
  if (call.side) return { text: 'side' }
  const role = roleOf(call)
  if (role === 'plan') return plan(call)
  if (role === 'review') return review(call)
  if (role === 'work') return work(call)
  return { status: 400, body: { error: { message: 'the prompt asks for nothing known' } } }
}
