// The slash command `/devloop`: words of an operator become commands of the engine, its views become text.
import { parseArgs } from 'node:util'
import type { ParseArgsConfig } from 'node:util'
import { sentence } from './config.js'
import type { CommandAnswer, CommandCall, HostContext } from './host.js'
import { mount } from './timer.js'
import type { Loops, ProjectView } from './timer.js'

const USAGE = `/devloop status
/devloop answer <answer> [--fresh] [--hold <key>] [--revision <n>]
/devloop pause [--now]
/devloop resume [--task <id>] [--reset-cost]`

const flag = { type: 'boolean' } as const
const text = { type: 'string' } as const
/** Each word with its options; an option of another word is refused. */
const OPTIONS = {
  status: {},
  answer: { fresh: flag, hold: text, revision: text },
  pause: { now: flag },
  resume: { task: text, 'reset-cost': flag },
}

/** The wish that an operator typed, undefined for `status`; throws a sentence for what cannot be meant. */
export function parseWords(rawInput: string): object | undefined {
  const args = rawInput.trim().split(/\s+/)
  const verb = args.shift() || 'status'
  if (!Object.hasOwn(OPTIONS, verb)) throw new Error(`unknown word "${verb}"\n${USAGE}`)
  const options: NonNullable<ParseArgsConfig['options']> = OPTIONS[verb as keyof typeof OPTIONS]
  const { values: given, positionals } = parseArgs({ args, options, allowPositionals: true, strict: true })
  if (positionals.length !== (verb === 'answer' ? 1 : 0)) throw new Error(USAGE)
  if (verb === 'pause') return { pause: { now: given['now'] ?? false } }
  if (verb === 'resume')
    return { resume: { task: given['task'] ?? null, reset_cost: given['reset-cost'] ?? false } }
  if (verb === 'status') return undefined
  const revision = given['revision'] === undefined ? null : Number(given['revision'])
  if (revision !== null && !Number.isSafeInteger(revision)) throw new Error('--revision must be a number')
  const answer = (positionals[0] ?? '').replaceAll('-', '_') + (given['fresh'] ? '_fresh' : '')
  return { answer: { answer, hold: given['hold'] ?? null, revision } }
}

/** The folder of the chat session the command came from. */
function folderOf(call: CommandCall): string | undefined {
  const header = call.agent?.session?.header
  const cwd = header?.cwd ?? header?.meta?.cwd
  return typeof cwd === 'string' ? cwd : undefined
}

/** The state in words: the sentence, what each task does, and each question with what to type. */
export function statusText({ name, root, error, view }: ProjectView): string {
  const tasks = (view?.tasks ?? []).map(
    (t) => `${t.id}: ${[t.stage, t.waits_for].filter(Boolean).join(', ')}`,
  )
  const questions = (view?.questions ?? []).flatMap(({ key, text, answers }) => [
    text,
    ...answers.map((offer) => `  /devloop answer ${offer.answer} --hold ${key}  (${offer.text})`),
  ])
  const distrust = view?.question ? [`${view.reason}: ${view.question}`] : []
  const byHand = (view?.by_hand ?? []).map((step) => `  by hand: ${step}`)
  const sentence = view?.sentence ?? 'not looked at yet'
  return [`${name} (${root})`, error ?? sentence, ...distrust, ...byHand, ...tasks, ...questions].join('\n')
}

async function handle(loops: Loops, call: CommandCall): Promise<CommandAnswer> {
  try {
    const wish = parseWords(call.rawInput)
    const loop = loops.find(folderOf(call))
    if (!loop) return { kind: 'error', text: 'DevLoop has no project for this folder.' }
    if (!wish) return { kind: 'success', text: statusText(loop.view()) }
    const report = await loop.command({ by: 'chat', wish })
    return { kind: report.accepted ? 'success' : 'error', text: `${report.sentence}\n${report.next}` }
  } catch (error) {
    return { kind: 'error', text: sentence(error) }
  }
}

/** Registers `/devloop` for as long as `ctx` lives. */
export function registerCommands(ctx: HostContext, loops: Loops): void {
  mount(ctx, loops, 'the command /devloop', () =>
    ctx.commands?.register({
      name: 'devloop',
      description: 'The loop of this project: its state, its questions, pause and resume.',
      input: { hint: 'status | answer <answer> | pause | resume' },
      handler: (call) => handle(loops, call),
    }),
  )
}
