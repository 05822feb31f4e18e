/** Reads a large attachment within the JSON of every resource that can hold it, and reports the memory that it took. */
import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { expect } from 'vitest'
import { ServerProcess } from '../../crash/server-process.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const PIECE_BYTES = 256 * 1024

/** The resources, and how much more memory than before each one took at most. */
export async function readLarge(sizeBytes: number): Promise<Map<string, number>> {
  const server = new ServerProcess(await temporaryFolder())
  try {
    const database = `${await server.url()}large`
    expect((await fetch(database, { method: 'PUT' })).status).toBe(201)
    const md5 = await upload(`${database}/document/content`, sizeBytes)
    const growth = new Map<string, number>()
    for (const [resource, body] of RESOURCES) {
      await fetch(`${database}/_all_docs`).then((reply) => reply.text())
      const before = server.residentBytes
      let highest = before
      const read = await contentMd5(`${database}/${resource}`, body, () => {
        highest = Math.max(highest, server.residentBytes)
      })
      expect([resource, read]).toEqual([resource, md5])
      growth.set(resource, highest - before)
    }
    return growth
  } finally {
    await server.stop()
  }
}

const RESOURCES: [string, object | undefined][] = [
  ['document?attachments=true', undefined],
  ['document?open_revs=all&attachments=true', undefined],
  ['_all_docs?include_docs=true&attachments=true', undefined],
  ['_all_docs?include_docs=true&attachments=true&descending=true', { keys: ['document', 'none'] }],
  ['_bulk_get?attachments=true', { docs: [{ id: 'document' }] }],
]

/** Random, so that nothing can be packed, and one piece again and again, so that making them costs nothing. */
function upload(url: string, sizeBytes: number): Promise<string> {
  const md5 = createHash('md5')
  const piece = randomBytes(PIECE_BYTES)
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/octet-stream', 'Content-Length': String(sizeBytes) }
    const outgoing = request(url, { method: 'PUT', headers }, (response) => {
      response.resume().on('end', () => resolve(md5.digest('base64')))
    })
    outgoing.on('error', reject)
    let left = sizeBytes
    const send = () => {
      while (left > 0) {
        const next = piece.subarray(0, Math.min(left, PIECE_BYTES))
        left -= next.length
        md5.update(next)
        if (!outgoing.write(next)) {
          outgoing.once('drain', send)
          return
        }
      }
      outgoing.end()
    }
    send()
  })
}

/** Of what stands in Base64 in the only `data` member of the reply. */
async function contentMd5(url: string, body: object | undefined, onPiece: () => void): Promise<string> {
  const headers = { Accept: 'application/json', 'Content-Type': 'application/json' }
  const reply = await fetch(url, body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers })
  expect(reply.status).toBe(200)
  const md5 = createHash('md5')
  let text = ''
  let isWithin = false
  for await (const piece of reply.body ?? []) {
    onPiece()
    text += Buffer.from(piece).toString('latin1')
    if (!isWithin) {
      const start = text.indexOf(DATA)
      if (start < 0) continue
      isWithin = true
      text = text.slice(start + DATA.length)
    }
    const end = text.indexOf('"')
    const whole = end < 0 ? text.length - (text.length % 4) : end
    md5.update(Buffer.from(text.slice(0, whole), 'base64'))
    text = text.slice(whole)
  }
  // The rest closes what was open: it is whole.
  expect(text).toMatch(/^"[\s\S]*[\]}]\n$/)
  return md5.digest('base64')
}

const DATA = '"data":"'
