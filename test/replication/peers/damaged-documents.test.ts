/** A document that cannot be replicated as it is: it counts as a failure, and does not keep the others back. */
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'
import { replicate } from '../peers.ts'
import { change, revision, ScriptedPeer, type ScriptedRequest, text } from './scripted-peer.ts'

const here = serverOfFile()
const there = serverOfFile()

const REV = revision(1)
const OTHER_REV = revision(1, 'b')

async function target(
  side: string,
): Promise<{ name: string; get(path: string): Promise<{ status: number; text: string }> }> {
  const database = await (side === 'local' ? here() : there()).database()
  return { name: side === 'local' ? database.name : database.url, get: (path) => database.get(path) }
}

const announced = { content_type: 'image/png', revpos: 1, length: 5, digest: 'md5-XUFAKrxLKna5cZ2REBfFkg==' }
const members = (rev: string) => ({ _id: 'a', _rev: rev, _revisions: { start: 1, ids: [rev.slice(2)] } })

/** A document with the one attachment that it announces, as a part. */
function part(rev: string, content: string): string {
  const document = { ...members(rev), _attachments: { x: { ...announced, follows: true } } }
  const inner = ['--i', 'Content-Type: application/json', '', JSON.stringify(document), '--i', '', content, '--i--']
  return ['--o', 'Content-Type: multipart/related; boundary="i"', '', ...inner].join('\r\n')
}

/** A source of two documents, one with an attachment: its content as it is inside of JSON, and as it is in a part. */
function inlineSource({ path, query, headers }: ScriptedRequest, inline: string, parted: string): unknown {
  if (path === '_changes') return { results: [change(1, 'a', REV), change(2, 'b', REV)], last_seq: 2 }
  if (path === 'a') return text(`${part(REV, parted)}\r\n--o--`, 'multipart/mixed; boundary="o"')
  if (path !== '_bulk_get' || headers.accept !== 'application/json') return undefined
  const { length: _, ...described } = announced
  const content =
    query.get('attachments') === 'true'
      ? { ...described, data: Buffer.from(inline).toString('base64') }
      : { ...announced, stub: true }
  const ok = { ...members(REV), _attachments: { x: content } }
  const other = { id: 'b', docs: [{ ok: { ...members(REV), _id: 'b' } }] }
  return { results: [{ id: 'a', docs: [{ ok }] }, other] }
}

describe.each(['local', 'remote'])('a %s target', (side) => {
  const contents = side === 'local' ? ['hell', 'hello!', 'HELLO'] : ['hell', 'hello!']
  it.each(contents)('gets the others where a content is damaged: %s', async (damaged) => {
    const peer = await ScriptedPeer.start(({ path, query, headers }) => {
      if (path === '_changes') return { results: [change(1, 'a', REV, OTHER_REV), change(2, 'b', REV)], last_seq: 2 }
      if (path === '_bulk_get' && headers.accept === 'application/json') {
        const stub = { x: { ...announced, stub: true } }
        const docs = [REV, OTHER_REV].map((rev) => ({ ok: { ...members(rev), _attachments: stub } }))
        return {
          results: [
            { id: 'a', docs },
            { id: 'b', docs: [{ ok: { ...members(REV), _id: 'b' } }] },
          ],
        }
      }
      const asked = path === 'a' ? (JSON.parse(query.get('open_revs') ?? '[]') as string[]) : [REV, OTHER_REV]
      const parts = asked.map((rev) => part(rev, rev === REV ? damaged : 'hello'))
      return ['a', '_bulk_get'].includes(path)
        ? text(`${parts.join('\r\n')}\r\n--o--`, 'multipart/mixed; boundary="o"')
        : undefined
    })
    const { name, get } = await target(side)
    const { history } = await replicate(here(), { source: peer.url, target: name, retries_per_request: 1 })
    expect(history[0]).toMatchObject({ missing_found: 3, doc_write_failures: 1 })
    expect((await get(`a?rev=${OTHER_REV}`)).status).toBe(200)
    expect((await get(`a?rev=${REV}`)).status).toBe(404)
    expect((await get('b')).status).toBe(200)
  })

  it.each(['HELLO', 'hell', 'hello!'])('fetches a content again that was damaged within JSON: %s', async (damaged) => {
    const peer = await ScriptedPeer.start((request) => inlineSource(request, damaged, 'hello'))
    const { name, get } = await target(side)
    const { history } = await replicate(here(), { source: peer.url, target: name, retries_per_request: 1 })
    expect(history[0]).toMatchObject({ docs_read: 2, docs_written: 2, doc_write_failures: 0 })
    expect((await get('a/x')).text).toBe('hello')
    expect((await get('b')).status).toBe(200)
  })

  it('gets the others where a content is damaged inside of JSON, and as a part', async () => {
    const peer = await ScriptedPeer.start((request) => inlineSource(request, 'HELLO', 'hell'))
    const { name, get } = await target(side)
    const { history } = await replicate(here(), { source: peer.url, target: name, retries_per_request: 1 })
    expect(history[0]).toMatchObject({ docs_written: 1, doc_write_failures: 1 })
    expect((await get('a')).status).toBe(404)
    expect((await get('b')).status).toBe(200)
  })

  it.each([0, 300_000])('gets the others where it does not know a member of one, beside %d bytes', async (size) => {
    const peer = await ScriptedPeer.start(({ path }) => {
      if (path === '_changes') return { results: [change(1, 'a', REV), change(2, 'b', REV)], last_seq: 2 }
      if (path !== '_bulk_get') return undefined
      const odd = { ...members(REV), _unknown: 1, text: 'x'.repeat(size) }
      return {
        results: [
          { id: 'a', docs: [{ ok: odd }] },
          { id: 'b', docs: [{ ok: { ...members(REV), _id: 'b' } }] },
        ],
      }
    })
    const { name, get } = await target(side)
    const { history } = await replicate(here(), { source: peer.url, target: name, retries_per_request: 1 })
    expect(history[0]).toMatchObject({ docs_read: 2, docs_written: 1, doc_write_failures: 1 })
    expect((await get('b')).status).toBe(200)
  })
})
