/** What tests of attachments have in common: digests, multipart requests, and multipart replies taken apart. */
import { createHash } from 'node:crypto'
import { expect } from 'vitest'
import type { Reply, TestDatabase } from './client.ts'

/** An attachment as documents show it. */
export interface AttachmentEntry {
  content_type: string
  revpos: number
  digest: string
  length?: number
  stub?: true
  follows?: true
  data?: string
  encoding?: string
  encoded_length?: number
}

export interface DocumentWithAttachments {
  _id: string
  _rev: string
  _attachments: Record<string, AttachmentEntry>
}

export interface ReplyPart {
  headers: Record<string, string>
  body: Buffer
}

export const OCTETS = 'application/octet-stream'

/** Compresses to 44 bytes or so. */
export const BEES = 'a bee sees a tree, a bee sees a sea'

export function md5(content: string | Buffer): string {
  return createHash('md5').update(content).digest('base64')
}

export function digestOf(content: string | Buffer): string {
  return `md5-${md5(content)}`
}

export function base64(content: string | Buffer): string {
  return Buffer.from(content).toString('base64')
}

/** An attachment as it is sent inside a document. */
export function inline(content: string | Buffer, contentType = OCTETS): { content_type: string; data: string } {
  return { content_type: contentType, data: base64(content) }
}

/** Uploads that must succeed; each gives the new revision. */
export async function attach(
  db: TestDatabase,
  path: string,
  content: string | Buffer,
  contentType = OCTETS,
): Promise<string> {
  return (await db.put(path, content, { 'Content-Type': contentType })).rev
}

/** The attachments of a document as it shows them; none when it shows none. */
export async function entries(db: TestDatabase, path: string): Promise<Record<string, AttachmentEntry>> {
  const reply = await db.get(path)
  expect(reply.status, reply.text).toBe(200)
  return reply.as<Partial<DocumentWithAttachments>>()._attachments ?? {}
}

/** One part of a multipart request; the headers are lines. */
export interface SentPart {
  headers?: string[]
  body: string | Buffer
}

export function multipart(boundary: string, parts: readonly SentPart[]): Buffer {
  const bytes = parts.flatMap(({ headers = [], body }) => [
    Buffer.from(`--${boundary}\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`),
    Buffer.from(body),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...bytes, Buffer.from(`--${boundary}--`)])
}

/** A document and the contents that follow it; a content with a name says so. */
export function related(
  document: unknown,
  contents: readonly (string | Buffer | { name: string; content: string | Buffer })[],
  boundary = 'abc123',
): Buffer {
  const json = typeof document === 'string' ? document : JSON.stringify(document)
  return multipart(boundary, [
    { headers: ['Content-Type: application/json'], body: json },
    ...contents.map((content) =>
      typeof content === 'string' || Buffer.isBuffer(content)
        ? { body: content }
        : { headers: [`Content-Disposition: attachment; filename="${content.name}"`], body: content.content },
    ),
  ])
}

export const RELATED = { 'Content-Type': 'multipart/related; boundary=abc123' }

/** The boundary of a multipart reply, which must be of the type that the test expects. */
export function boundaryOfReply(type: string, expected: string): string {
  const match = new RegExp(`^${expected}; boundary="?([0-9a-f]{32})"?$`).exec(type)
  expect(match, type).not.toBeNull()
  return match?.[1] ?? ''
}

/** The parts of a multipart body; the tests make sure that no content has the boundary. */
export function partsOfReply(reply: Pick<Reply, 'body'>, boundary: string): ReplyPart[] {
  const text = `\r\n${reply.body.toString('latin1')}`
  const pieces = text.split(`\r\n--${boundary}`)
  expect(pieces.at(-1), 'what follows the last boundary').toMatch(/^--(\r\n)?$/)
  return pieces.slice(1, -1).map((piece) => {
    const end = piece.indexOf('\r\n\r\n')
    expect(piece.startsWith('\r\n') && end >= 0, piece).toBe(true)
    const lines = Buffer.from(piece.slice(2, end), 'latin1').toString().split('\r\n')
    const headers = lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ])
    return { headers: Object.fromEntries(headers), body: Buffer.from(piece.slice(end + 4), 'latin1') }
  })
}
