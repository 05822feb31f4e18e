/** What tests of views have in common: design documents, and answers made of rows. */
import { expect } from 'vitest'
import type { Reply, TestDatabase } from './client.ts'

export interface ViewRow {
  id?: string
  key: unknown
  value: unknown
  doc?: Record<string, unknown> | null
}

export interface ViewAnswer {
  total_rows?: number
  offset?: number
  update_seq?: number
  rows: ViewRow[]
}

export interface ViewDefinition {
  map: string
  reduce?: string
  options?: Record<string, unknown>
}

/** Puts `_design/{name}`; what else it has may be given too. */
export async function putViews(
  db: TestDatabase,
  views: Record<string, ViewDefinition>,
  { name = 'd', ...members }: { name?: string; [member: string]: unknown } = {},
): Promise<string> {
  return db.save(`_design/${name}`, { views, ...members })
}

/** Documents that are written in one go. */
export async function fill(db: TestDatabase, docs: readonly object[]): Promise<string[]> {
  const reply = await db.post('_bulk_docs', { docs })
  expect(reply.status, reply.text).toBe(201)
  return reply.as<{ rev: string }[]>().map(({ rev }) => rev)
}

export function answerOf(reply: Reply): ViewAnswer {
  expect(reply.status, reply.text).toBe(200)
  return reply.as<ViewAnswer>()
}

/** The answer of a view of `_design/d`. */
export async function query(db: TestDatabase, view: string, parameters = ''): Promise<ViewAnswer> {
  return answerOf(await db.get(`_design/d/_view/${view}${parameters && `?${parameters}`}`))
}

/** Ids, or keys where rows are reduced. */
export function idsOf({ rows }: ViewAnswer): unknown[] {
  return rows.map(({ id }) => id)
}

export function keysOf({ rows }: ViewAnswer): unknown[] {
  return rows.map(({ key }) => key)
}

export function valuesOf({ rows }: ViewAnswer): unknown[] {
  return rows.map(({ value }) => value)
}

/** As it stands in a query string. */
export function json(value: unknown): string {
  return encodeURIComponent(JSON.stringify(value))
}
