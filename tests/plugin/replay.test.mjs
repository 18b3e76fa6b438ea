// The document of a recorded night in a headless Chromium, opened from the disk: a real night of the demo,
// decided again in the page under another budget, beside what the command line answers for the same budget.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import chromium from '@sparticuz/chromium'
import puppeteer from 'puppeteer-core'
import { repository } from './lib/harness.mjs'

const run = promisify(execFile)
const target = process.env.CARGO_TARGET_DIR
  ? resolve(process.env.CARGO_TARGET_DIR)
  : join(repository, 'target')
const program = join(target, 'debug', 'devloop')
const box = mkdtempSync(join(tmpdir(), 'devloop-replay-'))
const env = { PATH: process.env.PATH, HOME: box, TMPDIR: box, GIT_CONFIG_NOSYSTEM: '1' }
const LESS = { budget: { maxCostUsdPerGoal: 0.1 } }

let root
let browser
let page
const faults = []

before(async () => {
  const { stdout } = await run(program, ['demo'], { env, cwd: box })
  const said = /devloop.* replay (\S+) --page/.exec(stdout)
  assert.ok(said, stdout)
  root = said[1]
  const file = join(box, 'night.html')
  await run(program, ['replay', root, '--page', file], { env })
  browser = await puppeteer.launch({
    args: chromium.args,
    executablePath: await chromium.executablePath(),
    headless: 'shell',
  })
  page = await browser.newPage()
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('console', (said) => said.type() === 'error' && faults.push(said.text()))
  page.on('request', (asked) => /^(file|data):/.test(asked.url()) || faults.push(asked.url()))
  await page.goto(pathToFileURL(file), { waitUntil: 'load' })
  await page.waitForSelector('#comparison table')
})
after(async () => {
  await browser?.close()
  rmSync(box, { recursive: true, force: true })
})

const text = (selector) => page.$eval(selector, (node) => node.innerText)
const rows = () =>
  page.$$eval('#comparison table:first-of-type tbody tr', (found) =>
    found.map((row) => [...row.cells].map((cell) => cell.textContent)),
  )

/** What the command line says for the same budget. */
async function answer(overlay) {
  const policy = join(box, 'policy.json')
  writeFileSync(policy, JSON.stringify(overlay))
  return JSON.parse((await run(program, ['replay', root, '--with', policy, '--json'], { env })).stdout)
}

async function type(selector, value) {
  await page.$eval(
    selector,
    (input, value) => {
      input.value = value
    },
    value,
  )
}

test('under the recorded budget the recorded night comes out', async () => {
  const seen = await text('#comparison')
  assert.ok(seen.includes('Nothing differs.') && seen.includes('the recorded night comes out'), seen)
})

test('under another budget the page says what the command line says', async () => {
  await type('#limit-maxCostUsdPerGoal', '0.1')
  await page.click('button[type=submit]')
  const { recorded, what_if: other, parting } = await answer(LESS)
  assert.ok(other.merged < recorded.merged && parting, 'this budget changes nothing')
  const shown = Object.fromEntries((await rows()).map(([name, ...cells]) => [name, cells]))
  const pair = (say) => [recorded, other].map((figures) => String(say(figures)))
  assert.deepEqual(shown['merged tasks'], pair((f) => `${f.merged} of ${f.tasks}`))
  for (const name of ['plans', 'attempts', 'reviews']) assert.deepEqual(shown[name], pair((f) => f[name]))
  assert.deepEqual(shown['questions asked'], pair((f) => f.questions))
  assert.deepEqual(shown['open at the end'], pair((f) => f.open.join(', ') || 'none'))
  assert.deepEqual(shown['at the end'], pair((f) => f.ended))
  const measured = pair((f) => `$${(f.measured_usd_micros / 1e6).toFixed(2)}`)
  assert.deepEqual(shown['money measured'].map((sum) => sum.slice(0, measured[0].length)), measured)
  const seen = await text('#comparison')
  assert.ok(seen.includes(`the line that leads to revision ${parting.revision}`), seen)
  assert.ok(seen.includes(parting.recorded) && seen.includes(parting.what_if), seen)
})

test('both nights can be walked through line by line', async () => {
  const { recorded, what_if: other } = await answer(LESS)
  for (const [night, figures] of [['recorded', recorded], ['what_if', other]]) {
    await page.click(`input[value=${night}]`)
    assert.equal(await text('#place'), `1 of ${figures.lines}`)
    await page.focus('#line')
    await page.keyboard.press('End')
    assert.equal(await text('#place'), `${figures.lines} of ${figures.lines}`)
    const seen = await page.$$eval('#frame tr', (found) =>
      found.map((row) => [...row.cells].map((cell) => cell.textContent)),
    )
    assert.deepEqual(Object.fromEntries(seen), figures.stages)
  }
})

test('a key that is no key is refused with its name, and the fields go back', async () => {
  await type('#keys', '{"budget":{"maxCostUsdPerGaol":1}}')
  await page.click('button[type=submit]')
  const refused = await text('#refused')
  assert.ok(refused.includes('did you mean maxCostUsdPerGoal?'), refused)
  await type('#keys', '{')
  await page.click('button[type=submit]')
  assert.notEqual(await text('#refused'), '')
  await page.click('button[type=reset]')
  const nothing = () => document.getElementById('comparison').innerText.includes('Nothing differs.')
  await page.waitForFunction(nothing)
  assert.equal(await text('#refused'), '')
})

test('nothing was loaded from anywhere and nothing failed', () => assert.deepEqual(faults, []))
