// The plugin's configuration, judged and repaired by the engine, and the list of projects. It never throws: a
// refused configuration would end the user's `dsh web`.
import { createHash } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, isAbsolute, join, resolve } from 'node:path'
import type { NativeState } from './native.js'

/** What the plugin itself obeys. */
export interface PluginConfig {
  /** Absolute folder of the project that is always there. */
  root: string
  /** false: no ticking; page and commands stay. */
  enabled: boolean
  /** Milliseconds between two beats, at least 500. */
  tickIntervalMs: number
  /** The whole configuration as the engine gets it, JSON. */
  json: string
  /** Sentences for the operator, one per repaired or unknown key. */
  reports: string[]
}

/**
 * Turns whatever stands in the profile into a configuration that works; never throws. The engine judges every
 * key; without an engine nothing ticks, so the defaults will do.
 */
export function readConfig(raw: unknown, native: NativeState, cwd = process.cwd()): PluginConfig {
  const config: PluginConfig = { root: cwd, enabled: true, tickIntervalMs: 2000, json: '{}', reports: [] }
  try {
    const json = JSON.stringify(raw ?? {})
    if (!native.ok) return config
    const judged = JSON.parse(native.module.readConfig(json)) as Partial<PluginConfig>
    return { ...config, ...judged, json, root: resolve(cwd, judged.root ?? '.') }
  } catch (error) {
    config.reports.push(`config: cannot be read, the defaults are in force: ${sentence(error)}`)
    return config
  }
}

/** The Standard Schema shape that the host calls; it always succeeds. */
export const Config = {
  '~standard': {
    version: 1 as const,
    vendor: 'dsh-devloop',
    validate: (raw: unknown): { value: unknown } => ({ value: raw ?? {} }),
  },
}

/** `$DSH_HOME`, by default `~/.dsh`. */
export function dshHome(env: NodeJS.ProcessEnv = process.env): string {
  return env['DSH_HOME'] ? resolve(env['DSH_HOME']) : join(homedir(), '.dsh')
}

export interface Project {
  /** Twelve hex digits of the digest of the real path. */
  id: string
  name: string
  root: string
  /** The folder of this profile's configuration, as against one from the list of projects. */
  own: boolean
}

/** Who is looked after: the configured root, then the listed ones; `error` when the list is not sound. */
export interface Registry {
  projects: Project[]
  error?: string
}

function project(root: string, own: boolean): Project {
  let real = resolve(root)
  try {
    real = realpathSync(real)
  } catch {
    // A folder that is gone keeps its written path; opening it says so.
  }
  const id = createHash('sha256').update(real).digest('hex').slice(0, 12)
  return { id, name: basename(real) || real, root: real, own }
}

/** Reads `devloop/projects.json` below `home`, never written here; a missing file is an empty list. */
export function readRegistry(ownRoot: string, home = dshHome()): Registry {
  const registry: Registry = { projects: [project(ownRoot, true)] }
  const file = join(home, 'devloop', 'projects.json')
  try {
    const list = JSON.parse(readFileSync(file, 'utf8')) as { version?: unknown; projects?: unknown } | null
    if (!Array.isArray(list?.projects)) throw new Error('must be {"version": 1, "projects": [...]}')
    if ((list.version ?? 1) !== 1) throw new Error('written by a newer DevLoop; update the plugin')
    for (const [i, entry] of list.projects.entries()) {
      const root: unknown = entry?.root
      if (typeof root !== 'string' || !isAbsolute(root) || root.includes('\0')) {
        registry.error ??= `${file}: projects[${i}].root must be an absolute path; this entry is left out`
        continue
      }
      const next = project(root, false)
      if (!registry.projects.some((known) => known.id === next.id)) registry.projects.push(next)
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') registry.error = `${file}: ${sentence(error)}`
  }
  return registry
}

/** What went wrong, as text. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
