/**
 * The steps of the Dockerfile, done without a container engine: the files of its build stage are copied, its commands are
 * run, and what its last stage would hold is started. What an engine adds (images, users, layers) is not covered.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { dockerfile, ROOT, type Stage } from './dockerfile.ts'

it('the commands of the Dockerfile make a server that starts', async () => {
  const folder = await temporaryFolder()
  const { stages } = await dockerfile()
  const [build, last] = stages
  if (!build || !last) throw new Error('There are two stages.')
  const source = join(folder, 'build')
  mkdirSync(source)
  runStage(build, source)
  const image = join(folder, 'image')
  mkdirSync(image)
  for (const { name, text } of last.steps) {
    const [, from = '', to = ''] = /^--from=build \/build\/(\S+) (\S+)$/.exec(text) ?? []
    if (name === 'COPY' && from !== '')
      cpSync(join(source, from), join(image, to === './' ? from : to), { recursive: true })
  }
  const server = spawn(process.execPath, [join(image, 'dist/cli.js'), '--dir', join(folder, 'data'), '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: folder,
  })
  onTestFinished(() => void server.kill('SIGKILL'))
  const client = new Client(await addressOf(server))
  expect((await client.request('GET', '/_up')).status).toBe(200)
  expect((await client.request('GET', '/_utils/')).status).toBe(200)
  await client.request('PUT', '/db')
  await client.request('PUT', '/db/_design/d', { body: { views: { v: { map: 'function(doc) { emit(doc._id) }' } } } })
  await client.request('PUT', '/db/a', { body: {} })
  await until(async () => (await client.request('GET', '/db/_design/d/_view/v')).text.includes('"id":"a"'))
  server.kill('SIGTERM')
  const code = await new Promise((resolve) => server.on('exit', resolve))
  expect(code).toBe(0)
})

function runStage({ steps }: Stage, folder: string): void {
  for (const { name, text } of steps) {
    if (name === 'COPY') {
      const paths = text.split(' ')
      for (const path of paths.slice(0, -1)) cpSync(join(ROOT, path), join(folder, path), { recursive: true, filter })
    } else if (name === 'RUN') execFileSync('/bin/sh', ['-c', text], { cwd: folder, stdio: 'inherit' })
  }
}

/** What a clone does not have. */
function filter(path: string): boolean {
  return !path.includes('node_modules') && !path.endsWith('/dist')
}

function addressOf(server: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let out = ''
    server.stdout?.on('data', (text: Buffer) => {
      out += text
      const [url] = /http:\/\/\S+/.exec(out) ?? []
      if (url !== undefined) resolve(url)
    })
    server.on('exit', (code) => reject(new Error(`The server ended with ${code}.`)))
  })
}
