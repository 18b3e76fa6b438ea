// The loop of the plugin in a real DSH beside the command line: `devloop doctor` only reads, says whose the
// project is and ends with the right code; a state that is not believed is shown with its question and
// nothing is written over it. Needs `cargo xtask dist` before.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { Dsh, sampleRepository, snapshot, until } from './lib/harness.mjs'

const PACKAGE = '@jhfnetboy/dsh-devloop'
let dsh

before(async () => {
  dsh = await Dsh.withPlugin()
})
after(() => dsh?.end())

/** The installed command line; its code and what it said. */
function cli(...args) {
  const script = dsh.profileFile(`node_modules/${PACKAGE}/lib/bin/devloop.js`)
  return new Promise((settle) => {
    execFile('node', [script, ...args], { env: dsh.env, cwd: dsh.box }, (error, out, err) =>
      settle({ code: error?.code ?? 0, out: out + err }),
    )
  })
}

/** An armed project that the plugin ticks without doing anything. */
async function armed(name) {
  const root = join(dsh.box, name)
  await sampleRepository(root, dsh.env)
  mkdirSync(join(root, '.devloop'))
  writeFileSync(join(root, '.devloop', 'GOAL.md'), '# Goal\n\nSay hello.\n')
  const config = { root, tickIntervalMs: 500 }
  writeFileSync(dsh.profileFile('cordis.patch.yml'), JSON.stringify([{ id: 'devloop', config }]))
  return root
}

const project = async (web) => (await web.projects()).projects[0]

async function sees(web, what, probe) {
  return await until(what, async () => {
    const value = await project(web)
    return { ok: value !== undefined && probe(value), value }
  })
}

test('doctor beside the living loop of the plugin reads only, and says who owns the project', async () => {
  const root = await armed('beside')
  const web = await dsh.web(dsh.box)
  try {
    const { view } = await sees(web, 'a first tick', (shown) => shown.view?.phase === 'active')
    assert.equal(view.owner.key, 'runs')
    // The loop itself takes its lock at each beat.
    const seen = () => snapshot(root, (path) => path === '.devloop/LOCK')
    const before = seen()
    const found = await cli('doctor', root)
    assert.equal(found.code, 0, found.out)
    assert.match(found.out, new RegExp(`process ${view.owner.pid} runs the loop`), found.out)
    assert.match(found.out, /Nothing is wrong\./)
    const rows = JSON.parse((await cli('doctor', root, '--json')).out)
    assert.ok(rows.some((row) => row.about === 'owner' && row.weight === 'well'), JSON.stringify(rows))
    assert.deepEqual(seen(), before)
    assert.ok(!existsSync(join(dsh.dshHome, 'devloop')), 'nothing is written beside it either')
    const repair = await cli('doctor', root, '--repair')
    assert.equal(repair.code, 1, repair.out)
    assert.match(repair.out, new RegExp(`another supervisor runs this project.*process ${view.owner.pid}`))
    assert.equal((await project(web)).error, null, 'the loop goes on')
  } finally {
    assert.equal((await web.stop()).code, 0)
  }
  const after = await cli('doctor', root)
  assert.equal(after.code, 0, after.out)
  assert.doesNotMatch(after.out, /runs the loop/)
})

test('a damaged state is shown with its question and kept; the loop goes on when it is mended', async () => {
  const root = await armed('damaged')
  const file = join(root, '.devloop', 'STATE.json')
  const first = await dsh.web(dsh.box)
  try {
    await sees(first, 'a first tick', (shown) => shown.view?.phase === 'active')
  } finally {
    await first.stop()
  }
  const good = readFileSync(file, 'utf8')
  const bad = good.replace('"number":1', '"number":7')
  assert.notEqual(bad, good)
  writeFileSync(file, bad)
  const web = await dsh.web(dsh.box)
  try {
    const shown = await sees(web, 'the distrust', ({ view }) => view?.phase === 'untrusted')
    assert.match(shown.error, /STATE\.json/)
    assert.equal(shown.view.reason, 'invalid_state')
    assert.match(shown.view.question, /Which part is right\?$/)
    const [look] = shown.view.by_hand
    assert.match(look, /devloop\.js doctor /, 'a command that this installation has')
    assert.ok(look.endsWith(root), look)
    const found = await cli('doctor', root)
    assert.equal(found.code, 1, found.out)
    assert.match(found.out, /STATE\.json/)
    assert.equal(readFileSync(file, 'utf8'), bad, 'nothing is written over')
    writeFileSync(file, good)
    const mended = await sees(web, 'the mended state', ({ view }) => view?.phase === 'active')
    assert.equal(mended.error, null)
  } finally {
    assert.equal((await web.stop()).code, 0)
  }
})
