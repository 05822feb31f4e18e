/** Whatever the documents and their attachments, in whichever form they are written, every form of reading gives them back. */
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  boundaryOfReply,
  type DocumentWithAttachments,
  entries,
  inline,
  OCTETS,
  partsOfReply,
  type ReplyPart,
  related,
} from '../../support/attachments.ts'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

interface Content {
  type: string
  bytes: Buffer
}

/** One revision: which contents it brings, and which of its parent's it keeps. */
interface Revision {
  n: number
  brings: Map<string, Content>
  keeps: boolean[]
}

type Contents = Map<string, Content>

const NAMES = ['a', '2', '1', 'b/c', 'ü ☃', 'say "x"', 'back\\slash', 'line\r\nbreak', "it's", '%41', 'a.txt']

const content: fc.Arbitrary<Content> = fc.record({
  type: fc.constantFrom(OCTETS, 'text/plain', 'image/png', 'text/html; charset=utf-8'),
  bytes: fc
    .oneof(
      fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
      fc
        .constantFrom('', '\r\n--', '\r\n\r\n', '--abc123', '\r\n--abc123x--\r\n', 'plain')
        .map((text) => Buffer.from(text)),
      fc.integer({ min: 60_000, max: 140_000 }).map((length) => Buffer.alloc(length, 'every byte counts ')),
    )
    .filter((bytes) => !/\r\n--abc123([ \t]*\r\n|--)/.test(`\r\n${bytes.toString('latin1')}\r\n`)),
})

const revision: fc.Arbitrary<Revision> = fc.record({
  n: fc.nat({ max: 9 }),
  brings: fc
    .uniqueArray(fc.tuple(fc.constantFrom(...NAMES), content), { selector: ([name]) => name, maxLength: 3 })
    .map((pairs) => new Map(pairs)),
  keeps: fc.array(fc.boolean(), { minLength: NAMES.length, maxLength: NAMES.length }),
})

/** How a revision is written. Each gives the same revision for the same edit. */
const WRITERS = ['inline', 'bulk', 'related', 'one by one'] as const
type Writer = (typeof WRITERS)[number]

function kept({ keeps, brings }: Revision, parent: Contents): Contents {
  return new Map([...parent].filter(([name]) => keeps[NAMES.indexOf(name)] && !brings.has(name)))
}

async function write(
  db: TestDatabase,
  writer: Writer,
  edit: Revision,
  parent: string,
  before: Contents,
): Promise<string> {
  const stubs = [...kept(edit, before).keys()].map((name) => [name, { stub: true }] as const)
  const { n, brings } = edit
  const rev = parent === '' ? {} : { _rev: parent }
  const listed = (entry: (content: Content) => unknown) =>
    orderedJson({ ...rev, n }, [...stubs, ...[...brings].map(([name, each]) => [name, entry(each)] as const)])
  switch (writer) {
    case 'inline':
      return (
        await db.put(
          'doc',
          listed(({ bytes, type }) => inline(bytes, type)),
        )
      ).rev
    case 'bulk': {
      const document = listed(({ bytes, type }) => inline(bytes, type)).replace('{', '{"_id":"doc",')
      const [entry] = (await db.post('_bulk_docs', `{"docs":[${document}]}`)).as<{ rev: string }[]>()
      return entry?.rev ?? ''
    }
    case 'related': {
      const document = listed(({ bytes, type }) => ({ follows: true, content_type: type, length: bytes.length }))
      const body = related(
        document,
        [...brings.values()].map(({ bytes }) => bytes),
      )
      return (await db.put('doc', body, { 'Content-Type': 'multipart/related; boundary="abc123"' })).rev
    }
    case 'one by one': {
      let last = (await db.put('doc', orderedJson({ ...rev, n }, stubs))).rev
      for (const [name, { bytes, type }] of brings) {
        const path = `doc/${encodeURIComponent(name)}?rev=${last}`
        last = (await db.put(path, bytes, { 'Content-Type': type })).rev
      }
      return last
    }
  }
}

/** An object would put names that look like numbers first. */
function orderedJson(members: object, attachments: readonly (readonly [string, unknown])[]): string {
  const list = attachments.map(([name, entry]) => `${JSON.stringify(name)}:${JSON.stringify(entry)}`).join(',')
  return JSON.stringify(members).replace(/\}$/, `,"_attachments":{${list}}}`)
}

/** The contents of one revision in every form in which they can be had. */
const READERS: Record<string, (db: TestDatabase, rev: string) => Promise<Contents>> = {
  async 'one by one'(db, rev) {
    const contents: Contents = new Map()
    for (const name of Object.keys(await entries(db, `doc?rev=${rev}`))) {
      const path = `doc/${encodeURIComponent(name)}?rev=${rev}`
      const plain = await db.get(path)
      const packed = await db.get(path, { 'Accept-Encoding': 'gzip' })
      const unpacked = packed.headers['content-encoding'] === 'gzip' ? gunzipSync(packed.body) : packed.body
      expect(unpacked.equals(plain.body), name).toBe(true)
      contents.set(name, { type: plain.headers['content-type'] ?? '', bytes: plain.body })
    }
    return contents
  },
  async inline(db, rev) {
    return contentsOfJson((await db.get(`doc?rev=${rev}&attachments=true`)).as())
  },
  async related(db, rev) {
    const reply = await db.get(`doc?rev=${rev}&attachments=true`, { Accept: 'multipart/related' })
    const type = reply.headers['content-type'] ?? ''
    if (!type.startsWith('multipart/')) return contentsOfJson(reply.as())
    expect(reply.headers['content-length']).toBe(String(reply.body.length))
    return contentsOfParts(partsOfReply(reply, boundaryOfReply(type, 'multipart/related')))
  },
  async 'open_revs, mixed'(db, rev) {
    const query = encodeURIComponent(JSON.stringify([rev]))
    const reply = await db.get(`doc?open_revs=${query}`, { Accept: 'multipart/mixed' })
    return contentsOfNested(
      partsOfReply(reply, boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed')),
    )
  },
  async 'open_revs, JSON'(db, rev) {
    const query = encodeURIComponent(JSON.stringify([rev]))
    const [item] = (await db.get(`doc?open_revs=${query}&attachments=true`)).as<{ ok: DocumentWithAttachments }[]>()
    return contentsOfJson(item?.ok)
  },
  async '_bulk_get, mixed'(db, rev) {
    const reply = await db.post('_bulk_get', { docs: [{ id: 'doc', rev }] })
    return contentsOfNested(
      partsOfReply(reply, boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed')),
    )
  },
  async '_bulk_get, JSON'(db, rev) {
    const body = { docs: [{ id: 'doc', rev }] }
    const reply = await db.post('_bulk_get?attachments=true', body, { Accept: 'application/json' })
    const { results } = reply.as<{ results: { docs: { ok: DocumentWithAttachments }[] }[] }>()
    return contentsOfJson(results[0]?.docs[0]?.ok)
  },
}

function contentsOfJson(document: Partial<DocumentWithAttachments> | undefined): Contents {
  return new Map(
    Object.entries(document?._attachments ?? {}).map(([name, { content_type, data }]) => {
      expect(data, name).toBeTypeOf('string')
      return [name, { type: content_type, bytes: Buffer.from(data ?? '', 'base64') }]
    }),
  )
}

/** The parts come in the order of the entries, and say the same of themselves. */
function contentsOfParts([document, ...parts]: ReplyPart[]): Contents {
  const text = document?.body.toString() ?? ''
  const { _attachments } = JSON.parse(text) as DocumentWithAttachments
  const names = Object.keys(_attachments).sort((a, b) => position(text, a) - position(text, b))
  expect(parts).toHaveLength(names.length)
  return new Map(
    names.map((name, index) => {
      const { headers = {}, body = Buffer.alloc(0) } = parts[index] ?? {}
      expect(headers['content-length']).toBe(String(body.length))
      expect(headers['content-type']).toBe(_attachments[name]?.content_type)
      expect(headers['content-encoding']).toBe(_attachments[name]?.encoding)
      const bytes = headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
      expect(_attachments[name]?.length).toBe(bytes.length)
      return [name, { type: headers['content-type'] ?? '', bytes }]
    }),
  )
}

function position(document: string, name: string): number {
  return document.indexOf(`${JSON.stringify(name)}:{"content_type"`)
}

function contentsOfNested([part, ...others]: ReplyPart[]): Contents {
  expect(others).toEqual([])
  const type = part?.headers['content-type'] ?? ''
  if (type === 'application/json') return contentsOfJson(JSON.parse(part?.body.toString() ?? ''))
  return contentsOfParts(
    partsOfReply({ body: part?.body ?? Buffer.alloc(0) }, boundaryOfReply(type, 'multipart/related')),
  )
}

function comparable(contents: Contents): unknown {
  return [...contents]
    .map(([name, { type, bytes }]) => [name, type, bytes.toString('base64')] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

async function expectContents(db: TestDatabase, rev: string, contents: Contents): Promise<void> {
  for (const [form, read] of Object.entries(READERS)) {
    expect(comparable(await read(db, rev)), form).toEqual(comparable(contents))
  }
}

describe('a document with attachments', () => {
  it('survives every form of writing and reading, revision by revision', async () => {
    const edits = fc.array(fc.tuple(fc.constantFrom(...WRITERS), revision), { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(edits, async (steps) => {
        const db = await client().database()
        const known: { rev: string; contents: Contents }[] = []
        for (const [writer, edit] of steps) {
          const parent = known.at(-1)
          const before: Contents = parent?.contents ?? new Map()
          const rev = await write(db, writer, edit, parent?.rev ?? '', before)
          expect(rev).toMatch(/^\d+-[0-9a-f]{32}$/)
          known.push({ rev, contents: new Map([...kept(edit, before), ...edit.brings]) })
        }
        for (const { rev, contents } of known) await expectContents(db, rev, contents)
        await db.compact()
        const last = known.at(-1)
        if (last) await expectContents(db, last.rev, last.contents)
      }),
      { numRuns: 25 },
    )
  })

  it('has the same revision whichever form it is written in', async () => {
    await fc.assert(
      fc.asyncProperty(revision, revision, async (first, second) => {
        const revisions: unknown[] = []
        for (const writer of ['inline', 'bulk', 'related'] as const) {
          const db = await client().database()
          const parent = await write(db, writer, first, '', new Map())
          revisions.push([parent, await write(db, writer, second, parent, first.brings)])
        }
        expect(revisions[1]).toEqual(revisions[0])
        expect(revisions[2]).toEqual(revisions[0])
      }),
      { numRuns: 20 },
    )
  })

  it('survives replication to another server, in every form', async () => {
    await fc.assert(
      fc.asyncProperty(revision, revision, async (first, second) => {
        const db = await client().database()
        const parent = await write(db, 'inline', first, '', new Map())
        const rev = await write(db, 'inline', second, parent, first.brings)
        const contents: Contents = new Map([...kept(second, first.brings), ...second.brings])

        const byJson = await client().database()
        await byJson.post(
          '_bulk_docs',
          `{"new_edits":false,"docs":[${(await db.get('doc?attachments=true&revs=true')).text}]}`,
        )
        await expectContents(byJson, rev, contents)

        const byParts = await client().database()
        const reply = await db.get('doc?attachments=true&revs=true', { Accept: 'multipart/related' })
        const sent = await byParts.put('doc?new_edits=false', reply.body, {
          'Content-Type': reply.headers['content-type']?.replace('text/plain', 'application/json'),
        })
        expect(sent.status, sent.text).toBe(201)
        await expectContents(byParts, rev, contents)
      }),
      { numRuns: 20 },
    )
  })
})
