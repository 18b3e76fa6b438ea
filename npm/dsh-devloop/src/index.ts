// The plugin's entry: puts configuration, loops, page and commands together inside a DSH context. One hard
// inject, the rest as it comes; nothing that happens here may end the user's DSH.
import { Config, devloopHome, repairConfig, sentence } from './config.js'
import { registerCommands } from './commands.js'
import type { HostContext } from './host.js'
import { loadNative } from './native.js'
import type { NativeState } from './native.js'
import { mountRoutes } from './routes.js'
import { Loops } from './timer.js'

export const name = 'devloop'
/** The timer is part of every profile; everything else is asked for below. */
export const inject = ['timer']
export { Config }

/** Starts everything inside `ctx`; `native` is given by tests. */
export function start(ctx: HostContext, raw: unknown, native: NativeState): Loops {
  const known = knownKeys(native)
  const loops = new Loops(repairConfig(raw, known), native, devloopHome())
  ctx.effect(() => () => loops.close(), 'devloop.loops')
  ctx.interval(() => loops.beat(), loops.config.tickIntervalMs)
  ctx.inject(['webServer', 'connection'], (sub) => mountRoutes(sub, loops))
  ctx.inject(['commands'], (sub) => registerCommands(sub, loops))
  loops.beat()
  return loops
}

function knownKeys(native: NativeState): string[] {
  try {
    return native.ok ? (JSON.parse(native.module.configKeys()) as string[]) : []
  } catch {
    return []
  }
}

export function apply(ctx: HostContext, config: unknown): void {
  try {
    start(ctx, config, loadNative())
  } catch (error) {
    // Without this an exception here would end `dsh web`.
    console.error(`devloop is not running: ${sentence(error)}`)
  }
}
