/** Databases as sources and targets in tests: ways to compare all that replication brings from one to the other. */
import { expect } from 'vitest'
import type { Client, Reply, TestDatabase } from '../support/client.ts'

export interface ReplicationReply {
  ok: boolean
  no_changes?: boolean
  session_id: string
  source_last_seq: unknown
  replication_id_version: number
  history: HistoryEntry[]
}

export interface HistoryEntry {
  session_id: string
  start_time: string
  end_time: string
  start_last_seq: unknown
  end_last_seq: unknown
  recorded_seq: unknown
  missing_checked: number
  missing_found: number
  docs_read: number
  docs_written: number
  doc_write_failures: number
}

/** Has a server replicate, and gives the reply. */
export function post(client: Client, body: unknown): Promise<Reply> {
  return client.request('POST', '/_replicate', { body })
}

/** The same where it must succeed. */
export async function replicate(client: Client, body: unknown): Promise<ReplicationReply> {
  const reply = await post(client, body)
  expect(reply.status, reply.text).toBe(200)
  return reply.as<ReplicationReply>()
}

/** A document that was deleted, and one with two leaves. */
export async function addDeletionAndConflict(database: TestDatabase): Promise<void> {
  await database.saveAndRemove('gone', { a: 1 })
  await database.replicate(
    { _id: 'conflict', _rev: '1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', n: 1 },
    { _id: 'conflict', _rev: '1-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', n: 2 },
    {
      _id: 'conflict',
      _revisions: { start: 2, ids: ['cccccccccccccccccccccccccccccccc', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'] },
      n: 3,
    },
  )
}

/** All leaves of all documents with their histories and the bytes of their attachments. */
export async function contents(database: TestDatabase): Promise<Map<string, unknown>> {
  const changes = await database.get('_changes?style=all_docs')
  const all = new Map<string, unknown>()
  for (const { id } of changes.as<{ results: { id: string }[] }>().results) {
    const path = id.startsWith('_design/') ? id : encodeURIComponent(id)
    const reply = await database.get(`${path}?open_revs=all&revs=true&attachments=true`, { Accept: 'application/json' })
    const leaves = reply.as<{ ok: Record<string, unknown> }[]>().map(({ ok }) => ok)
    all.set(id, leaves.map(withoutDigests).sort(byRevision))
  }
  return new Map([...all].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Digests of packed content are of the form in which it was sent last: the contents are compared instead. */
function withoutDigests(leaf: Record<string, unknown>): Record<string, unknown> {
  const attachments = leaf._attachments as Record<string, Record<string, unknown>> | undefined
  if (!attachments) return leaf
  const told = Object.entries(attachments).map(([name, { digest: _, ...members }]) => [name, members])
  return { ...leaf, _attachments: Object.fromEntries(told) }
}

function byRevision(a: Record<string, unknown>, b: Record<string, unknown>): number {
  return String(a._rev) < String(b._rev) ? -1 : 1
}

export async function expectSame(source: TestDatabase, target: TestDatabase): Promise<void> {
  expect(await contents(target)).toEqual(await contents(source))
}
