/** The worst requests that we can think of, at any size: each is to be answered without the server standing still. */
import { gzipSync } from 'node:zlib'
import type { Reply, TestDatabase } from '../../support/client.ts'

export interface WorstInput {
  readonly name: string
  /** What it needs, which is not measured. */
  readonly prepare?: (database: TestDatabase) => Promise<unknown>
  readonly send: (database: TestDatabase) => Promise<Reply>
  readonly status: number
}

/** Bodies of about so many bytes, lists of so many items. */
export interface InputSize {
  readonly bytes: number
  readonly items: number
}

export function worstInputs({ bytes, items }: InputSize): WorstInput[] {
  const ids = Array.from({ length: items }, (_, i) => `document ${i}`)
  const leaves = Math.min(items, 10_000)
  return [
    {
      name: 'a document of empty objects, packed',
      send: (db) => put(db, 'empty-objects', `{"a":[${repeated('{}', bytes)}]}`),
      status: 201,
    },
    {
      name: 'a document that is one long text',
      send: (db) => put(db, 'text', `{"a":"${'x'.repeat(bytes)}"}`),
      status: 201,
    },
    {
      name: 'a document of escapes',
      send: (db) => put(db, 'escapes', `{"a":"${'\\u00e9'.repeat(bytes / 6)}"}`),
      status: 201,
    },
    {
      name: 'a document of white space',
      send: (db) => put(db, 'blanks', `{"a":[${repeated(' 1 ', bytes)}]}`),
      status: 201,
    },
    {
      name: 'a document of long numbers',
      send: (db) => put(db, 'numbers', `{"a":[${repeated('9'.repeat(10_000), bytes)}]}`),
      status: 201,
    },
    {
      name: 'a document of many members',
      send: (db) => put(db, 'members', `{${members('m', bytes)}}`),
      status: 201,
    },
    {
      name: 'a document of members that come twice, at every depth',
      send: (db) => put(db, 'twice', nestedTwice(500, bytes)),
      status: 201,
    },
    {
      name: 'a document of many special members',
      send: (db) => put(db, 'specials', `{${members('_m', bytes)}}`),
      status: 500,
    },
    {
      name: 'a document that is not JSON in its last byte',
      send: (db) => put(db, 'broken', `{"a":[${repeated('{}', bytes)}]`),
      status: 400,
    },
    {
      name: 'a document read again',
      prepare: (db) => db.request('PUT', '/large', packed(`{"a":"${'x'.repeat(bytes)}"}`)),
      send: (db) => db.request('GET', '/large'),
      status: 200,
    },
    {
      name: 'an inline attachment',
      send: (db) => put(db, 'attachment', `{"_attachments":{"f":{"data":"${'A'.repeat(bytes - (bytes % 4))}"}}}`),
      status: 201,
    },
    {
      name: 'an inline attachment of padding',
      send: (db) => put(db, 'padding', `{"_attachments":{"f":{"data":"${'='.repeat(bytes)}"}}}`),
      status: 400,
    },
    {
      name: 'many tiny inline attachments',
      send: (db) => put(db, 'attachments', `{"_attachments":{${tinyAttachments(Math.min(items, 1000))}}}`),
      status: 201,
    },
    {
      name: 'many tiny inline attachments in _bulk_docs',
      send: (db) => {
        const document = `{"_attachments":{${tinyAttachments(90)}}}`
        return post(db, '/_bulk_docs', `{"docs":[${repeated(document, (items / 100) * (document.length + 1))}]}`)
      },
      status: 201,
    },
    {
      name: 'many documents in _bulk_docs',
      send: (db) => post(db, '/_bulk_docs', `{"docs":[${ids.map((id) => `{"_id":"${id}","n":1}`).join()}]}`),
      status: 201,
    },
    {
      name: 'the same documents again: conflicts',
      send: (db) => post(db, '/_bulk_docs', `{"docs":[${ids.map((id) => `{"_id":"${id}","n":1}`).join()}]}`),
      status: 201,
    },
    {
      name: 'more documents in _bulk_docs than are taken',
      send: (db) => post(db, '/_bulk_docs', `{"docs":[${repeated('{}', Math.max(bytes, 400_000))}]}`),
      status: 413,
    },
    {
      name: 'a large document among small ones in _bulk_docs',
      send: (db) =>
        post(
          db,
          '/_bulk_docs',
          `{"docs":[{"n":1},{"a":[${repeated('{}', bytes)}]},{"n":2},{"a":"${'x'.repeat(bytes)}"}]}`,
        ),
      status: 201,
    },
    {
      name: 'many keys of _all_docs',
      send: (db) => post(db, '/_all_docs', JSON.stringify({ keys: ids })),
      status: 200,
    },
    {
      name: 'more keys of _all_docs than are taken',
      send: (db) => post(db, '/_all_docs', `{"keys":[${repeated('"a"', Math.max(bytes, 500_000))}]}`),
      status: 413,
    },
    {
      name: 'keys of _all_docs that are nested',
      send: (db) =>
        post(
          db,
          '/_all_docs',
          `{"keys":[${repeated(`${'['.repeat(500)}${']'.repeat(500)}`, Math.min(bytes, 3_000_000))}]}`,
        ),
      status: 200,
    },
    {
      name: 'a body of parameters that is nothing but members',
      send: (db) => post(db, '/_all_docs', `{${members('m', bytes)}}`),
      status: 413,
    },
    {
      name: 'many documents of _bulk_get',
      send: (db) =>
        post(db, '/_bulk_get', JSON.stringify({ docs: ids.map((id) => ({ id })) }), { Accept: 'application/json' }),
      status: 200,
    },
    {
      name: 'many documents of _revs_diff',
      send: (db) =>
        post(db, '/_revs_diff', JSON.stringify(Object.fromEntries(ids.map((id) => [id, [`2-${hash(1)}`]])))),
      status: 200,
    },
    {
      name: 'many revisions of _revs_diff',
      send: (db) => post(db, '/_revs_diff', JSON.stringify({ [ids[0]!]: ids.map((_, i) => `2-${hash(i)}`) })),
      status: 200,
    },
    {
      name: 'many revisions of _missing_revs',
      send: (db) => post(db, '/_missing_revs', JSON.stringify({ [ids[0]!]: ids.map((_, i) => `2-${hash(i)}`) })),
      status: 200,
    },
    {
      name: 'a document of many leaves',
      prepare: (db) =>
        post(
          db,
          '/_bulk_docs',
          JSON.stringify({
            new_edits: false,
            docs: Array.from({ length: leaves }, (_, i) => ({ _id: 'leaves', _rev: `2-${hash(i)}` })),
          }),
        ),
      send: (db) => db.request('GET', '/leaves?open_revs=all', { headers: { Accept: 'application/json' } }),
      status: 200,
    },
    {
      name: 'differences to a document of many leaves',
      send: (db) =>
        post(db, '/_revs_diff', JSON.stringify({ leaves: Array.from({ length: items }, (_, i) => `3-${hash(i)}`) })),
      status: 200,
    },
    {
      name: 'a purge of many documents',
      send: async (db) => {
        const rows = (await db.request('GET', '/_all_docs?startkey=%22document%20%22&endkey=%22document%20A%22')).as<{
          rows: { id: string; value: { rev: string } }[]
        }>().rows
        return post(
          db,
          '/_purge',
          JSON.stringify(Object.fromEntries(rows.slice(0, 5000).map(({ id, value }) => [id, [value.rev]]))),
        )
      },
      status: 200,
    },
    {
      name: 'a large security object',
      send: (db) =>
        db.request('PUT', '/_security', {
          body: `{"members":{"names":[${repeated('"a"', bytes)}]}}`,
        }),
      status: 413,
    },
    {
      name: 'many parts of a form',
      send: (db) =>
        db.request('PUT', '/parts', {
          headers: { 'Content-Type': 'multipart/related; boundary=x' },
          body: `--x\r\nContent-Type: application/json\r\n\r\n{}\r\n${'--x\r\n\r\n\r\n'.repeat(bytes / 9)}--x--`,
        }),
      status: 400,
    },
    {
      name: 'a boundary that almost comes',
      send: (db) =>
        db.request('PUT', '/boundary', {
          headers: { 'Content-Type': `multipart/related; boundary=${'-'.repeat(60)}` },
          body: '\r\n--'.repeat(bytes / 4),
        }),
      status: 400,
    },
    {
      name: 'an expression that branches at each character of many documents',
      prepare: (db) => withTexts(db),
      send: (db) => find(db, { text: { $regex: '(a|aa|aaa)*b' } }),
      status: 200,
    },
    {
      name: 'an expression that follows a thousand ways at a time',
      prepare: (db) => withTexts(db),
      send: (db) => find(db, { text: { $regex: `\\b${'a?'.repeat(900)}b` } }),
      status: 400,
    },
    {
      name: 'an expression in a feed',
      prepare: (db) => withTexts(db),
      send: (db) =>
        db.post('_changes?filter=_selector', { selector: { text: { $regex: '((a|b)(a|aa|aaa){1,20})*b' } } }),
      status: 200,
    },
    {
      name: 'a selector that excludes thousands of values, with an index',
      prepare: (db) => db.post('_index', { index: { fields: ['n'] } }),
      send: (db) => find(db, { $nor: Array.from({ length: 2500 }, (_, n) => ({ n })) }),
      status: 200,
    },
    {
      name: 'many ids in a selector',
      send: (db) => findAll(db, { _id: { $in: listedIds(LISTED_VALUES) } }),
      status: 200,
    },
    {
      name: 'many ids in many lists of a selector',
      send: (db) =>
        findAll(db, { $or: portionsOf(listedIds(LISTED_VALUES - 5000), 50).map((ids) => ({ _id: { $in: ids } })) }),
      status: 200,
    },
    {
      name: 'many ids in many lists of a selector, with an index on them',
      prepare: (db) => db.post('_index', { index: { fields: ['_id'] } }),
      send: (db) =>
        findAll(db, { $or: portionsOf(listedIds(LISTED_VALUES - 5000), 50).map((ids) => ({ _id: { $in: ids } })) }),
      status: 200,
    },
    {
      name: 'a selector of thousands of fields on documents with thousands of members',
      prepare: (db) => put(db, 'many-members', `{${members('m', 300_000)}}`),
      send: (db) => find(db, { $or: Array.from({ length: 2500 }, (_, i) => ({ [`k${i}`]: 1 })) }),
      status: 200,
    },
    {
      name: 'an expression on a text of nine megabytes',
      prepare: (db) => put(db, 'nine', `{"text":"${'a'.repeat(9_000_000)}"}`),
      send: (db) => find(db, { _id: { $gte: 'nine', $lt: 'ninf' }, text: { $regex: '(a|aa)*b' } }),
      status: 200,
    },
    {
      name: 'the same in a feed',
      prepare: (db) => put(db, 'nine', `{"text":"${'a'.repeat(9_000_000)}"}`),
      send: (db) =>
        db.post('_changes?filter=_selector&descending=true&limit=1', { selector: { text: { $regex: '(a|aa)*b' } } }),
      status: 200,
    },
    {
      name: 'a selector on the elements of a list of nine megabytes',
      prepare: (db) => put(db, 'ten', `{"list":[${repeated('1000000', 9_000_000)}]}`),
      send: (db) => find(db, { _id: { $gte: 'ten', $lt: 'teo' }, list: { $elemMatch: { $gt: 1_000_001 } } }),
      status: 400,
    },
    {
      name: 'headers of blanks',
      send: (db) =>
        db.request('GET', '/', {
          headers: {
            Accept: `application/json${' '.repeat(10_000)};`,
            'If-None-Match': ', '.repeat(5000),
            Cookie: '; ='.repeat(3000),
            Range: `bytes=${'0-1,'.repeat(2000)}`,
            'Accept-Encoding': `gzip${' '.repeat(5000)}`,
          },
        }),
      status: 200,
    },
  ]
}

let puts = 0

/** Of a new document each time: an input may be sent again. */
function put(db: TestDatabase, id: string, text: string): Promise<Reply> {
  return db.request('PUT', `/${id}-${puts++}`, packed(text))
}

function post(db: TestDatabase, path: string, text: string, headers: Record<string, string> = {}): Promise<Reply> {
  const { body, headers: usual } = packed(text)
  return db.request('POST', path, { body, headers: { ...usual, ...headers } })
}

function find(db: TestDatabase, selector: object): Promise<Reply> {
  return post(db, '/_find', JSON.stringify({ selector, limit: 10 }))
}

/** All of its matches. */
function findAll(db: TestDatabase, selector: object): Promise<Reply> {
  return post(db, '/_find', JSON.stringify({ selector, limit: 1_000_000 }))
}

/** Nearly as many as a selector has room for, whatever the size of the other inputs. */
const LISTED_VALUES = 42_000

/** In no order. */
function listedIds(count: number): string[] {
  return Array.from({ length: count }, (_, i) => ((i * 7919) % 46_656).toString(36))
}

function portionsOf<T>(items: readonly T[], size: number): T[][] {
  const portions: T[][] = []
  for (let at = 0; at < items.length; at += size) portions.push(items.slice(at, at + size))
  return portions
}

function withTexts(db: TestDatabase): Promise<Reply> {
  const text = 'a'.repeat(500)
  return db.post('_bulk_docs', { docs: Array.from({ length: 600 }, (_, i) => ({ _id: `text ${i}`, text })) })
}

function packed(text: string) {
  const headers = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
  return { body: gzipSync(text, { level: 1 }), headers }
}

/** With commas between. */
function repeated(value: string, bytes: number): string {
  return `${`${value},`.repeat(Math.max(1, bytes / (value.length + 1)) - 1)}${value}`
}

function members(prefix: string, bytes: number): string {
  return Array.from({ length: bytes / 14 }, (_, i) => `"${prefix}${i}":1`).join()
}

/** So many levels, each with a member twice, around a text. */
function nestedTwice(depth: number, bytes: number): string {
  return `${'{"a":1,"a":'.repeat(depth)}"${'x'.repeat(bytes)}"${'}'.repeat(depth)}`
}

function tinyAttachments(count: number): string {
  return Array.from({ length: count }, (_, i) => `"f${i}":{"data":""}`).join()
}

function hash(number: number): string {
  return number.toString(16).padStart(32, '0')
}
