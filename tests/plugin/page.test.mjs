// The page in a headless Chromium, under its own content security policy, with texts that try to be markup.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import chromium from '@sparticuz/chromium'
import puppeteer from 'puppeteer-core'
import { answer } from '../../npm/dsh-devloop/lib/routes.js'

const EVIL = '<img src=x onerror="document.title=\'taken\'"><script>document.title="taken"</script>'
const asked = {
  key: 'task/parser:max_task_attempts',
  revision: 12,
  text: `Attempts are used up. ${EVIL}`,
  evidence: ['3 of 3 attempts', EVIL],
  answers: [
    {
      answer: 'retry',
      text: 'Work again',
      spends: true,
      discards: false,
      recommended: true,
      command: 'devloop answer retry /p',
    },
  ],
  by_hand: ['Look at the branch.'],
}
const project = {
  id: 'abcdef012345',
  name: EVIL,
  root: '/projects/p',
  own: true,
  error: null,
  view: {
    phase: 'active',
    sentence: 'One task waits for you.',
    questions: [asked],
    tasks: [
      {
        id: 'parser',
        title: EVIL,
        stage: 'held',
        waits_for: 'a person',
        spent: 1_250_000,
        findings: ['f1 src/a.rs:3: no test'],
      },
    ],
    money: { goal: { measured: 1_250_000, priced: 0, assumed: 500_000, reserved: 0 } },
    caps: [{ circuit: 'daily_cost_cap', limit: 20_000_000, left: 18_250_000 }],
    running: [{ dispatch: 'd7', op: 'review', subject: 'task/lexer', route: 'reviewer', ending: true }],
  },
}
const idle = { ...project, id: '012345abcdef', name: 'idle', view: null, error: 'held by another process' }
const lost = {
  ...project,
  id: '00000000dead',
  name: 'lost',
  error: 'STATE.json is torn\n/usr/bin/devloop doctor /p',
  view: {
    phase: 'untrusted',
    sentence: 'STATE.json is torn',
    reason: 'invalid_state',
    question: 'Which part is right?',
    passes_by_itself: false,
    by_hand: ['See every file: /usr/bin/devloop doctor /p', EVIL],
  },
}
const loops = {
  view: () => ({
    engine: { ok: true, detail: 'x' },
    enabled: true,
    reports: ['config.rooot: unknown key'],
    beats: 3,
    registryError: null,
    projects: [project, idle, lost],
  }),
}
let server
let browser
let url

before(async () => {
  server = createServer((req, res) => answer({ get: () => undefined }, loops, req, res))
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
  url = `http://127.0.0.1:${server.address().port}/devloop/`
  browser = await puppeteer.launch({
    args: chromium.args,
    executablePath: await chromium.executablePath(),
    headless: 'shell',
  })
})
after(async () => {
  await browser?.close()
  server?.closeAllConnections()
  server?.close()
})

test('each phase of a project is shown as its one word', async () => {
  const page = await browser.newPage()
  const words = ['unarmed', 'paused', 'complete', 'halted', 'active']
  const shown = words.map((phase, i) => ({
    ...idle,
    id: `${i}`,
    error: null,
    view: { phase, sentence: `It is ${phase}.` },
  }))
  const { view } = loops
  loops.view = () => ({ ...view(), projects: shown })
  try {
    await page.goto(url, { waitUntil: 'load' })
    await page.waitForSelector('article.card')
    assert.deepEqual(
      await page.$$eval('article .pill', (pills) => pills.map((pill) => pill.textContent)),
      words,
    )
  } finally {
    loops.view = view
  }
})

test('projects, tasks, money and the pasteable answer are shown as text, in both schemes', async () => {
  const page = await browser.newPage()
  const faults = []
  page.on('pageerror', (error) => faults.push(String(error)))
  page.on('console', (said) => said.type() === 'error' && faults.push(said.text()))
  await page.goto(url, { waitUntil: 'load' })
  await page.waitForSelector('article.card')
  const seen = await page.evaluate(() => document.body.innerText)
  for (const text of [
    'One task waits for you.',
    'devloop answer retry /p',
    '3 of 3 attempts',
    '1.25 USD',
    '0.50 USD',
    EVIL,
    'held by another process',
    'config.rooot: unknown key',
    'daily_cost_cap: 18.25 USD left of 20.00 USD',
    'task/lexer',
    'is being ended',
    'Look at the branch.',
    'task/parser:max_task_attempts',
    'parser: f1 src/a.rs:3: no test',
    'Which part is right?',
    'invalid_state',
    'See every file: /usr/bin/devloop doctor /p',
    'not trusted',
  ]) {
    assert.ok(seen.includes(text), `${text}\nis not in\n${seen}`)
  }
  assert.equal(await page.title(), 'DevLoop')
  assert.equal(await page.$('article img, article script'), null)
  const paper = async (value) => {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }])
    return await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  }
  assert.notEqual(await paper('dark'), await paper('light'))
  assert.deepEqual(faults, [])
  if (process.env.DEVLOOP_SCREENSHOT)
    await page.screenshot({ path: process.env.DEVLOOP_SCREENSHOT, fullPage: true })
})
