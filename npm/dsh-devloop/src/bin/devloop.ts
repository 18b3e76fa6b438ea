#!/usr/bin/env node
// Starts the CLI binary of this platform and becomes it: same arguments, terminal, signals and exit code.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { platformFile, platformName } from '../native.js'

const binary = platformFile(process.platform === 'win32' ? 'bin/devloop.exe' : 'bin/devloop')
if (binary === undefined) {
  console.error(`devloop: no binary for ${platformName()}; install @jhfnetboy/dsh-devloop-${platformName()}`)
  process.exit(2)
}
const child = spawn(binary, process.argv.slice(2), { stdio: 'inherit' })
// The terminal sends SIGINT to both; a signal that only this process gets is passed on.
process.on('SIGINT', () => undefined)
process.on('SIGTERM', () => child.kill('SIGTERM'))
child.on('error', (error) => {
  console.error(`devloop: ${binary} does not start: ${error.message}`)
  process.exit(2)
})
child.on('exit', (code, signal) => {
  process.exit(code ?? 128 + (signal ? constants.signals[signal] : 0))
})
