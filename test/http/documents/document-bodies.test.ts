/** Bodies come back byte for byte, but for the white space that they were sent with. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

/** JSON as it is sent, and as it must come back. */
interface Text {
  sent: string
  kept: string
}

const blank = fc.constantFrom('', '', '', ' ', '\n', '\t', ' \r\n ')
const plainText = fc
  .oneof(fc.string({ maxLength: 6 }), fc.string({ unit: 'grapheme', maxLength: 6 }))
  .filter((text) => text.isWellFormed())
const number = fc.oneof(
  fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String),
  fc.tuple(fc.nat({ max: 9_999 }), fc.stringMatching(/^[0-9]{1,20}$/)).map(([whole, digits]) => `${whole}.${digits}`),
  fc
    .tuple(fc.nat({ max: 99 }), fc.constantFrom('e', 'E', 'e+', 'e-'), fc.nat({ max: 99 }))
    .map((parts) => parts.join('')),
)

function same(text: string): Text {
  return { sent: text, kept: text }
}

function joined(open: string, items: Text[], close: string, space: string): Text {
  const sent = items.map((item) => `${space}${item.sent}${space}`).join(',')
  return { sent: `${open}${space}${sent}${close}`, kept: `${open}${items.map((item) => item.kept).join(',')}${close}` }
}

const { object } = fc.letrec<{ value: Text; object: Text }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '""', '[]', '{}').map(same),
    number.map(same),
    plainText.map((text) => same(JSON.stringify(text))),
    fc.tuple(fc.array(tie('value'), { maxLength: 4 }), blank).map(([items, space]) => joined('[', items, ']', space)),
    tie('object'),
  ),
  object: fc
    .tuple(
      fc.uniqueArray(fc.tuple(fc.oneof(plainText, fc.nat().map(String)), tie('value')), {
        selector: ([name]) => name,
        maxLength: 5,
      }),
      blank,
    )
    .map(([members, space]) => {
      const items = members.map(([name, value]) => ({
        sent: `${JSON.stringify(name)}${space}:${space}${value.sent}`,
        kept: `${JSON.stringify(name)}:${value.kept}`,
      }))
      return joined('{', items, '}', space)
    }),
}))

/** Top-level names with an underscore are the server's. */
const body = object.filter(({ kept }) => !Object.keys(JSON.parse(kept)).some((name) => name.startsWith('_')))

describe('any body', () => {
  it('is returned as it was sent, from every endpoint', async () => {
    const db = await client().database()
    let count = 0
    await fc.assert(
      fc.asyncProperty(body, async ({ sent, kept }) => {
        const id = `doc-${count++}`
        const rev = await db.save(id, sent)
        const members = kept === '{}' ? '' : `,${kept.slice(1, -1)}`
        expect((await db.get(id)).text).toBe(`{"_id":"${id}","_rev":"${rev}"${members}}\n`)
        const bulk = await db.post(
          '_bulk_docs',
          `{"docs":[${sent.replace('{', `{"_id":"bulk-${id}"${members ? ',' : ''}`)}]}`,
        )
        expect(bulk.json).toEqual([{ ok: true, id: `bulk-${id}`, rev }])
        expect((await db.get(`bulk-${id}`)).text).toBe(`{"_id":"bulk-${id}","_rev":"${rev}"${members}}\n`)
        expect((await db.copy(id, `copy-${id}`)).rev).toBe(rev)
        expect((await db.put(`_local/${id}`, sent)).rev).toBe('0-1')
        expect((await db.get(`_local/${id}`)).text).toBe(`{"_id":"_local/${id}","_rev":"0-1"${members}}\n`)
      }),
      { numRuns: 150 },
    )
  })
})
