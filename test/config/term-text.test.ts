import { describe, expect, it } from 'vitest'
import { parseTerm, type Term, termPairs } from '../../src/config/term-text.ts'

const plain = ({ kind, text, items }: Term): unknown =>
  kind === 'list' || kind === 'tuple' ? { [kind]: items.map(plain) } : `${kind} ${text}`

describe('a term', () => {
  it.each([
    ['[]', { list: [] }],
    ['[0, 60]', { list: ['number 0', 'number 60'] }],
    [
      '[{httpd, "a b"}, {<<"x">>, \'*\'}].',
      { list: [{ tuple: ['word httpd', 'text a b'] }, { tuple: ['text x', 'word *'] }] },
    ],
    ['"a\\"b"', 'text a"b'],
  ])('%s is read', (text, value) => {
    const term = parseTerm(text)
    expect(term && plain(term)).toEqual(value)
  })

  it.each(['', '[', '[a', '{a,}', '[a b]', '"', '[a]]', '*', '['.repeat(100_000)])('%.20s is malformed', (text) => {
    expect(parseTerm(text)).toBeUndefined()
  })

  it('gives options by their names', () => {
    expect([...termPairs('[{max, 5}, junk, {nodelay, true}]')]).toEqual([
      ['max', '5'],
      ['nodelay', 'true'],
    ])
    expect(termPairs(undefined).size).toBe(0)
  })
})
