import { execFile } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const run = promisify(execFile)

/** Calls a function of a design document as a built server does. */
const PROGRAM = `
import { createFunctions } from './functions/create-functions.js'
const ignore = () => {}
const log = { debug: ignore, info: ignore, warn: ignore, error: ignore }
const settings = { timeoutMs: 60_000, reduceLimit: true, processLimit: 1, isolateMemoryMb: 128, processMemoryMb: 700 }
const functions = createFunctions({ settings: () => settings, log })
const design = JSON.stringify({ filters: { large: '(doc) => doc.n > 1' } })
const program = { id: '_design/x', key: 'x', language: 'javascript', text: design }
const passed = await functions.filter(program, 'large', ['{"n":1}', '{"n":2}'], '{}', { owner: 'test' })
process.stdout.write(JSON.stringify(passed))
await functions.close()
`

it('is written by the build', async () => {
  const folder = await temporaryFolder()
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  const built = join(folder, 'dist')
  const compiler = resolve('node_modules/.bin/tsc')
  await run(compiler, [
    '-p',
    'tsconfig.build.json',
    '--outDir',
    built,
    '--sourceMap',
    'false',
    '--declaration',
    'false',
  ])
  await run(process.execPath, ['scripts/build-sandbox.ts', built])
  writeFileSync(join(built, 'program.js'), PROGRAM)
  const { stdout } = await run(process.execPath, [join(built, 'program.js')])
  expect(stdout).toBe('[false,true]')
}, 120_000)
