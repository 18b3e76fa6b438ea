// The plugin's entry: puts configuration, loops, page and commands together inside a DSH context. One hard
// inject, the rest as it comes; nothing that happens here may end the user's DSH.
import { Agents } from './agents.js'
import { Config, dshHome, readConfig, sentence } from './config.js'
import { registerCommands } from './commands.js'
import type { HostContext } from './host.js'
import { launcher, loadNative } from './native.js'
import type { NativeState } from './native.js'
import { mountRoutes } from './routes.js'
import { Loops } from './timer.js'

export const name = 'devloop'
/** The timer is part of every profile; everything else is asked for below. */
export const inject = ['timer']
export { Config }

/** Starts everything inside `ctx`; `native` is given by tests. */
export function start(ctx: HostContext, raw: unknown, native: NativeState): Loops {
  const agents = new Agents()
  const loops = new Loops(readConfig(raw, native), native, dshHome(), agents)
  ctx.effect(() => () => loops.close(), 'devloop.loops')
  ctx.interval(() => loops.beat(), loops.config.tickIntervalMs)
  agents.mount(ctx)
  ctx.inject(['webServer', 'connection'], (sub) => mountRoutes(sub, loops))
  ctx.inject(['commands'], (sub) => registerCommands(sub, loops))
  loops.beat()
  return loops
}

export function apply(ctx: HostContext, config: unknown): void {
  try {
    // What the commands on the page start; set before any engine reads it.
    process.env['DEVLOOP_LAUNCHER'] = launcher().join('\x1f')
    start(ctx, config, loadNative())
  } catch (error) {
    // Without this an exception here would end `dsh web`.
    console.error(`devloop is not running: ${sentence(error)}`)
  }
}
