/** Whatever a function answers with, the client gets one complete reply, and the server continues. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

const headerName = fc.oneof(
  fc.constantFrom(
    'Content-Type',
    'content-length',
    'Transfer-Encoding',
    'Connection',
    'Set-Cookie',
    'ETag',
    'Date',
    'Vary',
  ),
  fc.string(),
)

const response = fc.oneof(
  fc.jsonValue(),
  fc.record(
    {
      code: fc.oneof(
        fc.integer({ min: 200, max: 599 }),
        fc.constantFrom(204, 205, 304, 100, 0, -1, '200', null, 1e300),
      ),
      headers: fc.oneof(fc.dictionary(headerName, fc.oneof(fc.string(), fc.jsonValue())), fc.jsonValue()),
      body: fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue()),
      json: fc.jsonValue(),
      base64: fc.oneof(fc.base64String(), fc.string()),
      stop: fc.boolean(),
    },
    { requiredKeys: [] },
  ),
)

describe('any response of a function', () => {
  it('is one reply, or an error', async () => {
    const db = await client().database()
    await db.save('_design/app', {
      shows: { it: 'function (doc, req) { return JSON.parse(req.body) }' },
      updates: { it: 'function (doc, req) { return [null, JSON.parse(req.body)] }' },
      lists: { it: "function (head, req) { start(JSON.parse(req.body).given); getRow(); send('x') }" },
    })
    await fc.assert(
      fc.asyncProperty(response, async (given) => {
        const text = JSON.stringify(given)
        for (const [path, body] of [
          ['_show/it', text],
          ['_update/it', text],
          ['_list/it/_all_docs', JSON.stringify({ given })],
        ] as const) {
          const reply = await db.post(`_design/app/${path}`, body)
          expect(reply.status).toBeGreaterThanOrEqual(200)
          if (reply.status === 500 && reply.text.startsWith('{"error"')) {
            expect(['render_error', 'external_response_error']).toContain(reply.as<{ error: string }>().error)
          }
        }
        expect((await client().request('GET', '/_up')).status).toBe(200)
      }),
      { numRuns: 100 },
    )
  })
})
