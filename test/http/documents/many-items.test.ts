import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'

const client = serverOfFile({ settings: { httpd: { max_request_items: '500' } } })

/** A document with so many empty attachments. */
function withAttachments(count: number): string {
  const attachments = Array.from({ length: count }, (_, i) => `"${i}":{"data":""}`)
  return `{"_attachments":{${attachments.join()}}}`
}

describe('a request with many attachments', () => {
  it('is refused where one document has more than 10,000', async () => {
    const database = await client().database()
    const reply = await database.request('PUT', '/document', { body: withAttachments(10_001) })
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([413, 'too_large'])
  })

  it.each([
    ['as many items as are allowed', 99, 201],
    ['more', 100, 413],
  ])('of _bulk_docs counts them like documents: %s', async (_, each, status) => {
    const database = await client().database()
    const body = `{"docs":[${Array(5).fill(withAttachments(each)).join()}]}`
    expect((await database.request('POST', '/_bulk_docs', { body })).status).toBe(status)
  })
})

describe('a document with many revisions', () => {
  it.each([
    ['as many as are allowed', 100_000, 201],
    ['more', 100_001, 413],
  ])('is accepted or refused: %s', async (_, count, status) => {
    const database = await client().database()
    const body = `{"_revisions":{"start":${count},"ids":[${Array(count).fill('"a"').join()}]}}`
    expect((await database.request('PUT', '/document?new_edits=false', { body })).status).toBe(status)
  })
})
