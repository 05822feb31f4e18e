/** Random requests: each gets a well-formed reply, and none of them harms the server. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Client, type Reply, type RequestOptions, serverOfFile } from '../../support/client.ts'
import { ODD_REVISIONS, QUERY_PARAMETERS, QUERY_VALUES } from '../../support/odd-values.ts'

const client = serverOfFile()

const REV = '1-967a00dff5e02add41819138abb3284d'
/** With these a reply may wait, or be of another form. */
const WAITING = new Set(['feed', 'heartbeat', 'timeout', 'filter', 'view', 'format'])

const method = fc.constantFrom('GET', 'GET', 'HEAD', 'PUT', 'PUT', 'POST', 'POST', 'DELETE', 'COPY', 'PATCH', 'OPTIONS')

const path = fc.oneof(
  fc.constantFrom(
    '',
    'doc',
    'gone',
    'torn',
    'new',
    'a/b',
    'a%2Fb',
    '%',
    '%FF',
    '%00',
    '_design/d',
    '_design%2Fd',
    '_design',
    '_design/',
    '_design/d/_x',
    '_design/d/x',
    '_local/l',
    '_local',
    '_local%2Fl',
    '_local/l/x',
    '_odd',
  ),
  fc.constantFrom(
    '_all_docs',
    '_all_docs/x',
    '_bulk_docs',
    '_bulk_docs/x',
    '_changes',
    '_compact',
    '_ensure_full_commit',
    '_missing_revs',
    '_purge',
    '_revs_diff',
    '_revs_limit',
    '_security',
  ),
)

const revision = fc.constantFrom(REV, '1-b', ...ODD_REVISIONS)

const junk = fc.oneof(
  fc.constantFrom(...QUERY_VALUES),
  revision,
  revision.map((text) => JSON.stringify([text])),
  fc.string({ maxLength: 8 }),
  fc.json({ maxDepth: 2 }),
)

const parameter = fc.constantFrom(...QUERY_PARAMETERS.filter((name) => !WAITING.has(name)))

const query = fc
  .array(fc.tuple(parameter, junk), { maxLength: 4 })
  .map((pairs) => pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&'))

const value = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  revision,
  fc.array(revision, { maxLength: 3 }),
  fc.constantFrom<unknown>(-1, 0, 1.5, 2 ** 53, '', null, true, [], {}, [[]], [null]),
)
const revisions = fc.record(
  {
    start: fc.oneof(fc.integer(), fc.constantFrom<unknown>(1e300, -0, 'x', null)),
    ids: fc.oneof(value, fc.array(revision)),
  },
  { requiredKeys: [] },
)
const document = fc.record(
  {
    _id: fc.oneof(fc.constantFrom<unknown>('doc', 'new', '_local/l', '_design/d', '_design/', '_x', ''), value),
    _rev: fc.oneof(revision, value),
    _revisions: fc.oneof(revisions, value),
    _deleted: fc.oneof(fc.boolean(), value),
    _odd: value,
    a: value,
    n: value,
  },
  { requiredKeys: [] },
)
const bulk = fc.record(
  {
    docs: fc.oneof(fc.array(fc.oneof(document, value), { maxLength: 4 }), value),
    new_edits: fc.oneof(fc.boolean(), value),
    all_or_nothing: fc.oneof(fc.boolean(), value),
  },
  { requiredKeys: [] },
)
const lists = fc.dictionary(
  fc.constantFrom('doc', 'gone', 'torn', 'nosuch', '', '__proto__'),
  fc.oneof(fc.array(revision), value),
)
const body = fc.oneof(
  fc.constant(undefined),
  document.map((one) => JSON.stringify(one)),
  bulk.map((one) => JSON.stringify(one)),
  lists.map((one) => JSON.stringify(one)),
  value.map((one) => JSON.stringify(one)),
  fc.record({ keys: value }).map((one) => JSON.stringify(one)),
  fc.string(),
  fc.uint8Array({ maxLength: 10 }).map((bytes) => Buffer.from(bytes)),
)

const headers = fc.record(
  {
    'Content-Type': fc.constantFrom('application/json', 'application/json', 'text/plain', ';', 'multipart/form-data'),
    'Content-Encoding': fc.constantFrom('identity', 'gzip', 'x'),
    'If-Match': revision.filter((text) => /^[\x20-\x7e]*$/.test(text)),
    'If-None-Match': fc.constantFrom(`"${REV}"`, '*', '"', ''),
    Destination: fc.constantFrom(
      'new',
      'doc',
      'doc?rev=x',
      '_x',
      '',
      '?',
      '?rev=1-a',
      '%',
      '%FF',
      '_local/l',
      'http://x',
    ),
    'X-HTTP-Method-Override': fc.constantFrom('PUT', 'DELETE', 'COPY', 'GET', 'x'),
    'X-Service-Full-Commit': fc.constantFrom('true', 'x'),
    Accept: fc.constantFrom('application/json', '*/*', ';;', ',', ''),
  },
  { requiredKeys: [] },
)

const request = fc.record({ method, path, query, body, headers })

function isKnownForm({ status, headers, text }: Reply, head: boolean): void {
  if (head || status === 304 || status === 301) {
    expect(text).toBe('')
    return
  }
  // An attachment that an earlier request has stored.
  if (status < 400 && headers['accept-ranges'] !== undefined) return
  expect(text).toMatch(/\n$/)
  const value: unknown = JSON.parse(text)
  if (status < 400) return
  expect(value).toEqual({ error: expect.any(String), reason: expect.any(String) })
  expect(headers['cache-control']).toBe('must-revalidate')
  // The one mistake of a client that is answered with 500.
  if (status >= 500) expect(value).toMatchObject({ error: 'doc_validation' })
}

async function send(to: Client, name: string, one: typeof request extends fc.Arbitrary<infer T> ? T : never) {
  const question = one.query === '' ? '' : `?${one.query}`
  const options: RequestOptions = { headers: { 'Content-Type': undefined, ...one.headers }, body: one.body }
  const reply = await to.request(one.method, `/${name}/${one.path}${question}`, options)
  isKnownForm(reply, one.method === 'HEAD')
  return reply
}

describe('any request', () => {
  it('gets a reply of the known form', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 12 }), async (requests) => {
        const db = await client().database()
        await db.save('doc', {})
        await db.saveAndRemove('gone', {})
        await db.replicate({ _id: 'torn', _rev: '1-a' }, { _id: 'torn', _rev: '1-b' })
        await db.save('_local/l', {})
        for (const one of requests) {
          await send(client(), db.name, one)
          if ((await db.get()).status === 404) return
        }
        const { doc_count } = await db.info()
        const listing = (await db.get('_all_docs?include_docs=true')).as<{ total_rows: number; rows: unknown[] }>()
        expect([listing.total_rows, listing.rows.length]).toEqual([doc_count, doc_count])
      }),
      { numRuns: 100 },
    )
  })
})
