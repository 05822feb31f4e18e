/** couchbackup and couchrestore, as they are: a database goes to a file and comes back, also after an interruption. */
import { createReadStream, createWriteStream, type ReadStream, type WriteStream } from 'node:fs'
import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

type Done = (error: Error | null) => void

/** What the tests use of it; it comes without types. */
const couchbackup: {
  backup(url: string, to: WriteStream, options: object, done: Done): void
  restore(from: ReadStream, url: string, options: object, done: Done): void
} = createRequire(import.meta.url)('@cloudant/couchbackup')

const DOCUMENTS = 5_000

interface Row {
  readonly id: string
  readonly value: { readonly rev: string }
}

async function start() {
  const { url } = await startService({ dialect: '3' })
  const ask = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const reply = await fetch(url + path, {
      method,
      headers: { 'Content-Type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    expect(reply.status, path).toBeLessThan(300)
    return reply.json()
  }
  await ask('PUT', 'source')
  await ask('PUT', 'target')
  const data = Buffer.from('content').toString('base64')
  const docs = Array.from({ length: DOCUMENTS }, (_, n) => ({
    _id: `doc-${n}`,
    n,
    ...(n % 100 === 0 && { _attachments: { 'f.txt': { content_type: 'text/plain', data } } }),
  }))
  await ask('POST', 'source/_bulk_docs', { docs })
  const rows = async (name: string) => ((await ask('GET', `${name}/_all_docs`)) as { rows: Row[] }).rows
  return { url, ask, rows }
}

function backup(url: string, file: string, options: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const out = createWriteStream(file, { flags: 'a' })
    couchbackup.backup(url, out, options, (error) => (error ? reject(error) : out.end(resolve)))
  })
}

function restore(file: string, url: string, options: object): Promise<void> {
  return new Promise((resolve, reject) => {
    couchbackup.restore(createReadStream(file), url, options, (error) => (error ? reject(error) : resolve()))
  })
}

describe('couchbackup', () => {
  it('backs a database up and restores it, attachments too', async () => {
    const { url, ask, rows } = await start()
    const folder = await temporaryFolder()
    const file = join(folder, 'backup.txt')
    await backup(`${url}source`, file, { log: join(folder, 'log'), attachments: true })
    await restore(file, `${url}target`, { attachments: true })
    expect(await rows('target')).toEqual(await rows('source'))
    expect(await ask('GET', 'target/doc-100?attachments=true')).toEqual(
      await ask('GET', 'source/doc-100?attachments=true'),
    )
  })

  it('resumes a backup that was aborted', async () => {
    const { url, ask, rows } = await start()
    await ask('PUT', 'plain')
    const docs = Array.from({ length: DOCUMENTS }, (_, n) => ({ _id: `doc-${n}`, n }))
    await ask('POST', 'plain/_bulk_docs', { docs })
    const folder = await temporaryFolder()
    const [file, log] = [join(folder, 'backup.txt'), join(folder, 'log')]
    await backup(`${url}plain`, file, { log, bufferSize: 500 })
    // As if it had ended after its third batch: that is how far its log and its file go.
    const done = (await readFile(log, 'utf8')).split('\n').filter((line) => line.startsWith(':d'))
    const lost = done.slice(3)
    await writeFile(
      log,
      (await readFile(log, 'utf8'))
        .split('\n')
        .filter((line) => !lost.includes(line))
        .join('\n'),
    )
    const lines = (await readFile(file, 'utf8')).trimEnd().split('\n')
    await writeFile(file, '')
    await appendFile(file, `${lines.slice(0, lines.length - lost.length).join('\n')}\n`)
    await backup(`${url}plain`, file, { log, resume: true, bufferSize: 500 })
    await restore(file, `${url}target`, {})
    expect(await rows('target')).toEqual(await rows('plain'))
  })
})
