import { describe, expect, it } from 'vitest'
import { parseViewDesign, viewDesign as viewDesignIn } from '../../../src/views/design/view-design.ts'

const MAP = 'function (doc) { emit(1) }'

const GLOBAL = { isPartitioned: false }

const viewDesign = (id: string, members: Record<string, unknown>) => viewDesignIn(id, members, GLOBAL)

describe('the signature of views', () => {
  const base = { views: { a: { map: MAP, reduce: '_count' }, b: { map: MAP } }, options: { local_seq: true, x: 1 } }

  it('is 32 hexadecimal digits', () => {
    expect(signature(base)).toMatch(/^[0-9a-f]{32}$/)
  })

  it.each<[what: string, members: object]>([
    ['the order of views', { ...base, views: { b: { map: MAP }, a: { reduce: '_count', map: MAP } } }],
    ['the order of options', { ...base, options: { x: 1, local_seq: true } }],
    ['other functions', { ...base, shows: { s: MAP }, filters: { f: MAP }, lists: {}, updates: {}, rewrites: [] }],
    ['id, revision and attachments', { ...base, _id: '_design/x', _rev: '1-a', _attachments: {} }],
    ['validation and any other member', { ...base, validate_doc_update: MAP, more: { of: 'that' } }],
    ['the language where it is the usual one', { ...base, language: 'javascript' }],
    ['a reduce of null', { ...base, views: { a: base.views.a, b: { map: MAP, reduce: null } } }],
  ])('does not distinguish %s', (_, members) => {
    expect(signature(members)).toBe(signature(base))
  })

  it.each<[what: string, members: object]>([
    ['the name of a view', { ...base, views: { c: base.views.a, b: base.views.b } }],
    [
      'a map function, its comments too',
      { ...base, views: { a: { map: `${MAP} // x`, reduce: '_count' }, b: base.views.b } },
    ],
    ['a reduce function', { ...base, views: { a: { map: MAP, reduce: '_sum' }, b: base.views.b } }],
    ['the options of a view', { ...base, views: { a: base.views.a, b: { map: MAP, options: { collation: 'raw' } } } }],
    ['the options of the document', { ...base, options: { local_seq: true, x: 2 } }],
    ['the language', { ...base, language: 'other' }],
    ['the library', { ...base, views: { ...base.views, lib: { x: 'exports.x = 1' } } }],
  ])('distinguishes %s', (_, members) => {
    expect(signature(members)).not.toBe(signature(base))
  })
})

describe('the views of a design document', () => {
  it('share rows where map function and options agree', () => {
    const { maps, views } = viewDesign('_design/d', {
      views: {
        sums: { map: MAP, reduce: '_sum' },
        counts: { map: MAP, reduce: '_count' },
        again: { map: MAP, reduce: '_sum' },
        plain: { map: MAP },
        raw: { map: MAP, options: { collation: 'raw' } },
      },
    })
    expect(maps).toMatchObject([
      { source: MAP, collation: 'unicode', reduces: ['_sum', '_count'] },
      { source: MAP, collation: 'raw', reduces: [] },
    ])
    expect(Object.fromEntries(views)).toEqual({
      sums: { number: 0, reduce: 0 },
      counts: { number: 0, reduce: 1 },
      again: { number: 0, reduce: 0 },
      plain: { number: 0, reduce: undefined },
      raw: { number: 1, reduce: undefined },
    })
  })

  it('are in the order that the view asks for, else in that of the document', () => {
    const collations = (options: unknown, own: unknown) =>
      viewDesign('_design/d', { options, views: { a: { map: MAP, options: own } } }).maps[0]?.collation
    expect(collations({ collation: 'raw' }, undefined)).toBe('raw')
    expect(collations(undefined, { collation: 'raw' })).toBe('raw')
    expect(collations({ collation: 'raw' }, { collation: 'other' })).toBe('unicode')
    expect(collations({ collation: 'other' }, undefined)).toBe('unicode')
  })

  it('are ignored when they are of the wrong type', () => {
    for (const views of [
      undefined,
      null,
      'x',
      [],
      { a: null, b: 'x', c: { map: 1 }, d: { reduce: '_sum' }, lib: {} },
    ]) {
      expect(viewDesign('_design/d', { views }).views.size).toBe(0)
    }
    expect(parseViewDesign('_design/d', '[]', GLOBAL).views.size).toBe(0)
  })

  it('may include the library, where that is a view itself', () => {
    const { views, library } = viewDesign('_design/d', { views: { lib: { map: MAP, b: '1', a: '2' } } })
    expect([...views.keys()]).toEqual(['lib'])
    expect(library).toBe(JSON.stringify({ a: '2', b: '1', map: MAP }))
  })

  it('are not without number', () => {
    const views = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`v${i}`, { map: `${MAP} // ${i}` }]))
    expect(() => viewDesign('_design/d', { views })).toThrow(expect.objectContaining({ kind: 'invalid' }))
  })
})

function signature(members: object): string {
  return parseViewDesign('_design/d', JSON.stringify(members), GLOBAL).signature
}
