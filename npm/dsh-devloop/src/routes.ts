// The page and its one reading route, behind one fence: every request, assets included, is judged by the
// host's own check where it has one, else by Host, Origin and fetch metadata. Nothing here writes.
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { sentence } from './config.js'
import type { HostContext, Route } from './host.js'
import { mount } from './timer.js'
import type { Loops } from './timer.js'

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])
const HOST_HEADER = /^(\[[0-9a-f:]+\]|[a-z0-9_.-]+)(:\d{1,5})?$/
const ASSETS: Record<string, [file: string, type: string]> = {
  '/devloop/': ['index.html', 'text/html; charset=utf-8'],
  '/devloop/app.js': ['app.js', 'text/javascript; charset=utf-8'],
  '/devloop/app.css': ['app.css', 'text/css; charset=utf-8'],
}
const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-resource-policy': 'same-origin',
}

type Refusal = 401 | 403 | undefined

/** Our own fence, for hosts without one: this machine or a trusted name, and no other site behind it. */
export function ownFence(req: IncomingMessage, trustedHosts: readonly string[]): Refusal {
  const host = req.headers.host?.toLowerCase() ?? ''
  const name = HOST_HEADER.exec(host)?.[1]
  if (name === undefined) return 403
  const trusted = trustedHosts.some((t) => t.toLowerCase() === host || t.toLowerCase() === name)
  if (!LOOPBACK.has(name) && !name.endsWith('.localhost') && !trusted) return 403
  const site = req.headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return 403
  const origin = req.headers.origin
  if (origin === undefined) return undefined
  return /^https?:\/\//.test(origin) && origin.replace(/^https?:\/\//, '').toLowerCase() === host
    ? undefined
    : 403
}

/** 401, 403 or undefined for "let it through". A check that throws refuses. */
export function refusal(ctx: HostContext, req: IncomingMessage): Refusal {
  try {
    const connection = ctx.get('connection') as
      { requestRejection?: (req: IncomingMessage) => unknown } | undefined
    if (typeof connection?.requestRejection === 'function') {
      const verdict = connection.requestRejection(req)
      return verdict === undefined ? undefined : verdict === 401 ? 401 : 403
    }
    const trusted = (ctx.get('webRuntime') as { trustedHosts?: unknown } | undefined)?.trustedHosts
    return ownFence(req, Array.isArray(trusted) ? trusted.filter((t) => typeof t === 'string') : [])
  } catch {
    return 403
  }
}

function send(
  req: IncomingMessage,
  res: ServerResponse,
  code: number,
  type: string,
  body: string,
  more = {},
): void {
  res.writeHead(code, { ...HEADERS, 'content-type': type, ...more })
  res.end(req.method === 'HEAD' ? undefined : body)
}

function sendJson(req: IncomingMessage, res: ServerResponse, code: number, body: unknown): void {
  send(req, res, code, 'application/json; charset=utf-8', JSON.stringify(body))
}

const refused = (code: string, message: string): object => ({ ok: false, error: { code, message } })

/** Answers one request below `/devloop`. */
export function answer(ctx: HostContext, loops: Loops, req: IncomingMessage, res: ServerResponse): void {
  const no = refusal(ctx, req)
  if (no === 401)
    return send(
      req,
      res,
      401,
      'text/plain; charset=utf-8',
      'Open DSH with its login link first, then this page.\n',
    )
  if (no !== undefined) return send(req, res, 403, 'text/plain; charset=utf-8', 'forbidden\n')
  const path = new URL(req.url ?? '/', 'http://localhost').pathname
  const asset = Object.hasOwn(ASSETS, path) ? ASSETS[path] : undefined
  const known = asset !== undefined || path === '/devloop' || path === '/devloop/api/projects'
  if (!known) return sendJson(req, res, 404, refused('not-found', 'there is nothing at this path'))
  if (req.method !== 'GET' && req.method !== 'HEAD') {
    return send(req, res, 405, 'text/plain; charset=utf-8', 'GET or HEAD only\n', { allow: 'GET, HEAD' })
  }
  if (path === '/devloop')
    return send(req, res, 308, 'text/plain; charset=utf-8', '', { location: '/devloop/' })
  if (asset === undefined) return sendJson(req, res, 200, { ok: true, value: loops.view() })
  send(
    req,
    res,
    200,
    asset[1],
    readFileSync(fileURLToPath(new URL(`../dashboard/${asset[0]}`, import.meta.url)), 'utf8'),
  )
}

/** Mounts the page for as long as `ctx` lives. */
export function mountRoutes(ctx: HostContext, loops: Loops): void {
  const handler: Route['handler'] = (req, res) => {
    try {
      answer(ctx, loops, req, res)
    } catch (error) {
      if (res.headersSent) res.destroy()
      else sendJson(req, res, 500, refused('internal', sentence(error)))
    }
  }
  mount(ctx, loops, 'the page /devloop/', () =>
    ctx.webServer?.register({ kind: 'prefix', path: '/devloop', handler }),
  )
}
