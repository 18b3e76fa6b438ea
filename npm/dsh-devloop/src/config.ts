// The plugin's configuration and the list of projects: repaired where a value makes no sense, every repair
// reported. It never throws: a refused configuration would end the user's `dsh web`. The loop's own keys pass
// through to the engine, which judges them.
import { createHash } from 'node:crypto'
import { readFileSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, isAbsolute, join, resolve } from 'node:path'

/** What the plugin itself obeys; `loop` holds the keys of the engine, untouched. */
export interface PluginConfig {
  /** Absolute folder of the project that is always there. */
  root: string
  /** false: no ticking; page and commands stay. */
  enabled: boolean
  /** Milliseconds between two beats, at least 500. */
  tickIntervalMs: number
  loop: Record<string, unknown>
  /** Sentences for the operator, one per repaired or unknown key. */
  reports: string[]
}

const MIN_TICK_MS = 500
const DEFAULT_TICK_MS = 2000
const MAX_TICK_MS = 2 ** 31 - 1
const OWN_KEYS = ['root', 'enabled', 'tickIntervalMs']

/** Edit distance of two words, for the nearest known key. */
function distance(a: string, b: string): number {
  let row = [...Array(b.length + 1).keys()]
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (letter === b[j - 1] ? 0 : 1)
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** The known key that `key` most likely meant. */
export function nearestKey(key: string, known: readonly string[]): string | undefined {
  const far = (other: string): number => distance(key.toLowerCase(), other.toLowerCase())
  const best = [...known].sort((a, b) => far(a) - far(b))[0]
  return best !== undefined && far(best) <= Math.max(2, key.length / 2) ? best : undefined
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Turns whatever stands in the profile into a configuration that works; never throws. `known` are the
 * engine's keys; without them every foreign key is passed on.
 */
export function repairConfig(raw: unknown, known: readonly string[] = [], cwd = process.cwd()): PluginConfig {
  const reports: string[] = []
  const given = isRecord(raw) ? raw : {}
  if (raw !== undefined && raw !== null && !isRecord(raw)) reports.push('config: must be a mapping of keys')
  const check = (key: string, fits: boolean, rule: string): void => {
    if (!fits && (given[key] ?? undefined) !== undefined) reports.push(`config.${key}: ${rule}`)
  }

  const isPath = typeof given['root'] === 'string' && given['root'] !== '' && !given['root'].includes('\0')
  const root = resolve(cwd, isPath ? String(given['root']) : '.')
  check('root', isPath, `must be a path; using ${root}`)

  const enabled = given['enabled'] !== false
  check('enabled', typeof given['enabled'] === 'boolean', 'must be true or false; using true')

  const asked = given['tickIntervalMs']
  const number = typeof asked === 'number' && Number.isFinite(asked) ? Math.round(asked) : DEFAULT_TICK_MS
  const tickIntervalMs = Math.min(MAX_TICK_MS, Math.max(MIN_TICK_MS, number))
  const range = `a whole number from ${MIN_TICK_MS} to ${MAX_TICK_MS}`
  check('tickIntervalMs', asked === tickIntervalMs, `must be ${range}; using ${tickIntervalMs}`)

  const loop: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(given)) {
    if (OWN_KEYS.includes(key) || value === undefined || value === null) continue
    if (known.length === 0 || known.includes(key)) loop[key] = value
    else {
      const near = nearestKey(key, [...OWN_KEYS, ...known])
      reports.push(`config.${key}: unknown key, ignored${near ? `; the nearest known key is ${near}` : ''}`)
    }
  }
  return { root, enabled, tickIntervalMs, loop, reports }
}

/** The Standard Schema shape that the host calls; it always succeeds. */
export const Config = {
  '~standard': {
    version: 1 as const,
    vendor: 'dsh-devloop',
    validate: (raw: unknown): { value: unknown } => ({ value: raw ?? {} }),
  },
}

/** The user's devloop folder: `$DSH_HOME/devloop`, with `~/.dsh` as the default home of DSH. */
export function devloopHome(env: NodeJS.ProcessEnv = process.env): string {
  return join(env['DSH_HOME'] ? resolve(env['DSH_HOME']) : join(homedir(), '.dsh'), 'devloop')
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
  return {
    id: createHash('sha256').update(real).digest('hex').slice(0, 12),
    name: basename(real) || real,
    root: real,
    own,
  }
}

/** Reads `projects.json`, which is never written here; a missing file is an empty list. */
export function readRegistry(ownRoot: string, home = devloopHome()): Registry {
  const registry: Registry = { projects: [project(ownRoot, true)] }
  const file = join(home, 'projects.json')
  try {
    const listed = parseRegistry(readFileSync(file, 'utf8'))
    for (const root of listed.roots) {
      const next = project(root, false)
      if (!registry.projects.some((p) => p.id === next.id)) registry.projects.push(next)
    }
    if (listed.refused) registry.error = `${file}: ${listed.refused}`
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') registry.error = `${file}: ${sentence(error)}`
  }
  return registry
}

function parseRegistry(text: string): { roots: string[]; refused?: string } {
  const document: unknown = JSON.parse(text)
  if (!isRecord(document) || !Array.isArray(document['projects']))
    throw new Error('must be {"version": 1, "projects": [...]}')
  if (document['version'] !== undefined && document['version'] !== 1)
    throw new Error('written by a newer DevLoop; update the plugin')
  const roots: string[] = []
  let refused: string | undefined
  document['projects'].forEach((entry: unknown, i) => {
    const root = isRecord(entry) ? entry['root'] : undefined
    if (typeof root === 'string' && isAbsolute(root) && !root.includes('\0')) roots.push(root)
    else refused ??= `projects[${i}].root must be an absolute path; this entry is left out`
  })
  return refused === undefined ? { roots } : { roots, refused }
}

/** What went wrong, as text. */
export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
