// The slash command `/devloop`: words of an operator become commands of the engine, and its views become text.
import { parseArgs } from 'node:util'
import { sentence } from './config.js'
import type { CommandAnswer, CommandCall, HostContext } from './host.js'
import type { Loops, ProjectLoop } from './timer.js'

const USAGE = [
  '/devloop status',
  '/devloop answer <answer> [--fresh] [--hold <key>] [--revision <n>]',
  '/devloop pause [--now]',
  '/devloop resume [--task <id>] [--reset-cost]',
].join('\n')

const wish = (wish: object): { verb: 'command'; command: object } => ({ verb: 'command', command: { by: 'chat', wish } })

/** What an operator typed, as the engine's command; throws a sentence for what cannot be meant. */
export function parseWords(rawInput: string): { verb: 'status' } | { verb: 'command'; command: object } {
  const args = rawInput.trim().split(/\s+/).filter((word) => word !== '')
  const verb = args.shift() ?? 'status'
  const options = {
    hold: { type: 'string' }, revision: { type: 'string' }, task: { type: 'string' },
    now: { type: 'boolean' }, fresh: { type: 'boolean' }, 'reset-cost': { type: 'boolean' },
  } as const
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true, strict: true })
  const only = (allowed: string[], words: number): void => {
    const stray = Object.keys(values).find((key) => !allowed.includes(key))
    if (stray !== undefined) throw new Error(`--${stray} does not belong to ${verb}\n${USAGE}`)
    if (positionals.length !== words) throw new Error(`${verb} takes ${words === 0 ? 'no word' : 'one answer'}\n${USAGE}`)
  }
  switch (verb) {
    case 'status':
      only([], 0)
      return { verb }
    case 'answer': {
      only(['fresh', 'hold', 'revision'], 1)
      const revision = values.revision === undefined ? null : Number(values.revision)
      if (revision !== null && !Number.isSafeInteger(revision)) throw new Error(`--revision must be a number\n${USAGE}`)
      const answer = (positionals[0] ?? '').replaceAll('-', '_') + (values.fresh ? '_fresh' : '')
      return wish({ answer: { answer, hold: values.hold ?? null, revision } })
    }
    case 'pause':
      only(['now'], 0)
      return wish({ pause: { now: values.now === true } })
    case 'resume':
      only(['task', 'reset-cost'], 0)
      return wish({ resume: { task: values.task ?? null, reset_cost: values['reset-cost'] === true } })
    default:
      throw new Error(`unknown word "${verb}"\n${USAGE}`)
  }
}

/** The folder of the chat session the command came from. */
function folderOf(call: CommandCall): string | undefined {
  const header = call.agent?.session?.header
  const cwd = header?.cwd ?? header?.meta?.cwd
  return typeof cwd === 'string' ? cwd : undefined
}

async function handle(loops: Loops, call: CommandCall): Promise<CommandAnswer> {
  try {
    const words = parseWords(call.rawInput)
    const view = loops.view()
    if (!view.engine.ok) return { kind: 'error', text: `DevLoop is not running: ${view.engine.detail}` }
    const loop: ProjectLoop | undefined = loops.find(folderOf(call))
    if (!loop) return { kind: 'error', text: 'DevLoop has no project for this folder.' }
    if (words.verb === 'status') return { kind: 'success', text: loop.statusText() }
    return { kind: 'success', text: JSON.stringify(await loop.command(words.command)) }
  } catch (error) {
    return { kind: 'error', text: sentence(error) }
  }
}

/** Registers `/devloop` for as long as `ctx` lives. */
export function registerCommands(ctx: HostContext, loops: Loops): void {
  ctx.effect(() => {
    try {
      const dispose = ctx.commands?.register({
        name: 'devloop',
        description: 'The loop of this project: its state, its questions, pause and resume.',
        input: { hint: 'status | answer <answer> | pause | resume' },
        handler: (call) => handle(loops, call),
      })
      return () => dispose?.()
    } catch (error) {
      loops.config.reports.push(`the command /devloop is not registered: ${sentence(error)}`)
      return () => undefined
    }
  }, 'devloop.commands')
}
