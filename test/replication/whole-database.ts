/** All that replication carries of a database: every leaf of every document with its history, its body and its attachments. */
import { createHash } from 'node:crypto'
import { expect } from 'vitest'

export interface WholeDocument {
  readonly winner: string
  readonly leaves: Readonly<Record<string, object>>
}

export type WholeDatabase = Readonly<Record<string, WholeDocument>>

interface Row {
  readonly id: string
  readonly changes: readonly { readonly rev: string }[]
}

interface Leaf {
  readonly _rev: string
  readonly _attachments?: Readonly<Record<string, { readonly data: string; readonly digest: string }>>
}

/** Documents that are read at the same time. */
const AT_ONCE = 8

export async function wholeDatabase(url: string): Promise<WholeDatabase> {
  const { results } = await readJson<{ results: Row[] }>(`${url}/_changes?style=all_docs`)
  const documents: [string, WholeDocument][] = []
  const rest = [...results]
  const readSome = async () => {
    for (let row = rest.pop(); row; row = rest.pop()) documents.push([row.id, await wholeDocument(url, row)])
  }
  await Promise.all(Array.from({ length: AT_ONCE }, readSome))
  return Object.fromEntries(documents.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Both hold the same; the message names the first document that differs, not all of them. */
export async function expectSame(left: string, right: string, hint = ''): Promise<void> {
  const [here, there] = await Promise.all([wholeDatabase(left), wholeDatabase(right)])
  expect(Object.keys(there), hint).toEqual(Object.keys(here))
  for (const [id, document] of Object.entries(here)) expect(there[id], `${hint} document ${id}`).toEqual(document)
}

async function wholeDocument(url: string, { id, changes }: Row): Promise<WholeDocument> {
  const path = id.startsWith('_design/') ? `_design/${encodeURIComponent(id.slice(8))}` : encodeURIComponent(id)
  const query = 'open_revs=all&revs=true&attachments=true'
  const leaves = await readJson<{ ok: Leaf }[]>(`${url}/${path}?${query}`)
  const shown = leaves.map(({ ok }): [string, object] => [ok._rev, { ...ok, _attachments: contentsOf(ok) }])
  const [winner] = changes
  return { winner: winner?.rev ?? '', leaves: Object.fromEntries(shown.sort(([a], [b]) => (a < b ? -1 : 1))) }
}

/** Contents as their hash: what differs is seen as well, and a failure stays readable. */
function contentsOf({ _attachments = {} }: Leaf): object {
  const shown = Object.entries(_attachments).map(([name, { data, ...stub }]): [string, object] => {
    const bytes = Buffer.from(data, 'base64')
    return [
      name,
      { ...withoutDigest(stub), bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') },
    ]
  })
  return Object.fromEntries(shown.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** That of packed content is of the form in which it was sent last. */
function withoutDigest<T extends { readonly digest: string }>({ digest: _, ...stub }: T): Omit<T, 'digest'> {
  return stub
}

async function readJson<T>(url: string): Promise<T> {
  const reply = await fetch(url, { headers: { Accept: 'application/json' } })
  const text = await reply.text()
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${text.slice(0, 200)}`)
  return JSON.parse(text)
}
