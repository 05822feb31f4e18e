/** Documents that `_bulk_get` opens together come as they would one by one, whatever they are. */
import { expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const hash = (digit: string) => digit.repeat(32)
const NEVER = `7-${hash('0')}`

interface Entry {
  readonly id: string
  readonly rev: string
}

/** Documents of all kinds, and everything that can be asked of them. */
async function filled(db: TestDatabase): Promise<Entry[]> {
  const attachment = (data: Buffer, type = 'application/octet-stream') => ({
    content_type: type,
    data: data.toString('base64'),
  })
  const plain = await db.save('plain', { text: 'ü"\\', number: 12.5 })
  const child = await db.save('plain', { _rev: plain, text: 'second' })
  const { live, tombstone } = await db.saveAndRemove('removed', { a: 1 })
  await db.replicate(
    { _id: 'torn', _rev: `1-${hash('a')}`, a: 1 },
    { _id: 'torn', _rev: `2-${hash('b')}`, _revisions: { start: 2, ids: [hash('b'), hash('a')] }, b: 1 },
    { _id: 'torn', _rev: `2-${hash('c')}`, _revisions: { start: 2, ids: [hash('c'), hash('a')] }, _deleted: true },
    { _id: 'torn', _rev: `3-${hash('d')}`, _revisions: { start: 3, ids: [hash('d'), hash('c'), hash('a')] }, d: 1 },
  )
  await db.replicate({ _id: 'wide', _rev: `1-${hash('0')}` })
  // The winner is small, the others do not fit into memory together.
  for (const digit of ['1', '2', '3', '4']) {
    const _revisions = { start: 2, ids: [hash(digit), hash('0')] }
    const text = digit === '4' ? '' : 'x'.repeat(700_000)
    await db.replicate({ _id: 'wide', _rev: `2-${hash(digit)}`, _revisions, text })
  }
  const attached: Entry[] = []
  for (const [id, _attachments] of Object.entries({
    empty: { a: attachment(Buffer.alloc(0)), b: attachment(Buffer.from('b')) },
    small: { a: attachment(Buffer.alloc(5000, 1)), 'ü/b"': attachment(Buffer.alloc(3, 2)) },
    packed: { a: attachment(Buffer.from('text '.repeat(100)), 'text/plain'), b: attachment(Buffer.alloc(20, 3)) },
    large: { a: attachment(Buffer.alloc(300_000, 4)), b: attachment(Buffer.alloc(10, 5)) },
    many: Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`${i}`, attachment(Buffer.alloc(4000, i))])),
    'a/b': { c: attachment(Buffer.from('c')) },
  })) {
    attached.push({ id, rev: await db.save(encodeURIComponent(id), { id, _attachments }) })
  }
  return [
    { id: 'plain', rev: plain },
    { id: 'plain', rev: child },
    { id: 'plain', rev: NEVER },
    { id: 'missing', rev: NEVER },
    { id: 'wide', rev: `1-${hash('0')}` },
    { id: 'wide', rev: `2-${hash('3')}` },
    { id: 'removed', rev: live },
    { id: 'removed', rev: tombstone },
    ...['1-a', '2-b', '2-c', '3-d'].map((each) => ({ id: 'torn', rev: `${each.slice(0, 2)}${hash(each.slice(2))}` })),
    ...attached,
    { id: '_design/none', rev: NEVER },
  ]
}

const QUERIES = [
  '',
  'revs=true',
  'latest=true',
  'attachments=true',
  'revs=true&latest=true&attachments=true&att_encoding_info=true',
]

it('returns the same in one reply and in many', async () => {
  const db = await client().database()
  const asked = await filled(db)
  const entries = [...asked, ...asked.toReversed()]
  const read = async (docs: unknown[], query: string) => {
    const reply = await db.post(`_bulk_get?${query}`, { docs }, { Accept: 'application/json' })
    expect(reply.status, reply.text).toBe(200)
    return reply.as<{ results: unknown[] }>().results
  }
  for (const query of QUERIES) {
    const together = await read(entries, query)
    // An entry without a revision has all of them opened one by one.
    const apart = await read([...entries, { id: 'missing' }], query)
    expect(together, query).toEqual(apart.slice(0, -1))
  }
})
