// A runaway guest inside Node: each kind of misbehaviour is stopped by its limit, and the process goes on.
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { distFolder, repository } from './lib/harness.mjs'

const only = (folder, fits) => {
  const [name, ...more] = readdirSync(folder).filter(fits)
  assert.ok(name && more.length === 0, `expected one such file in ${folder}`)
  return join(folder, name)
}
const addon = createRequire(import.meta.url)(
  only(join(distFolder, 'limits'), (name) => name.endsWith('.node')),
)
const built = join(repository, 'crates/devloop-component/built')
const image = readFileSync(only(built, (name) => /^hostile\..*cwasm$/.test(name)))

for (const [trouble, says] of [
  ['spin', /longer than it may/],
  ['bomb', /more memory than it may/],
  ['recurse', /too deep|outside|out of bounds/],
  ['panic', /unreachable/],
]) {
  test(`a guest that does "${trouble}" is stopped, and a fresh one works`, async () => {
    let beats = 0
    const beating = setInterval(() => beats++, 10)
    const { stopped, again } = JSON.parse(await addon.limitTest(image, trouble))
    clearInterval(beating)
    assert.match(stopped, says)
    assert.equal(again, true)
    if (trouble === 'spin') assert.ok(beats > 0, 'the event loop of Node stood still')
  })
}

test('a thousand traps in V8 and a hundred in the engine live together', async () => {
  const trap = new WebAssembly.Module(
    Uint8Array.of(
      0,
      97,
      115,
      109,
      1,
      0,
      0,
      0,
      1,
      4,
      1,
      96,
      0,
      0,
      3,
      2,
      1,
      0,
      7,
      5,
      1,
      1,
      116,
      0,
      0,
      10,
      5,
      1,
      3,
      0,
      0,
      11,
    ),
  )
  const { exports } = new WebAssembly.Instance(trap)
  let caught = 0
  for (let i = 0; i < 100; i++) {
    for (let j = 0; j < 10; j++) {
      try {
        exports.t()
      } catch (error) {
        caught += error instanceof WebAssembly.RuntimeError ? 1 : 0
      }
    }
    assert.match(JSON.parse(await addon.limitTest(image, 'panic')).stopped, /unreachable/)
  }
  assert.equal(caught, 1000)
})
