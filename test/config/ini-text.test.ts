import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseIni, replaceIniValue } from '../../src/config/ini-text.ts'

const parsed = (text: string) =>
  Object.fromEntries([...parseIni(text)].map(([name, keys]) => [name, Object.fromEntries(keys)]))

describe('a configuration file', () => {
  it.each([
    ['blanks around the first sign', '[a]\nx=1\ny  =  2 = 3\n', { x: '1', y: '2 = 3' }],
    ['a comment of its own', '[a]\n; x = 0\nx = 1\n', { x: '1' }],
    ['a comment behind a value', '[a]\nx = 1 ; one\ny = 2\t; two\nz = a;b\n', { x: '1', y: '2', z: 'a;b' }],
    ['a value over several lines', '[a]\nx = 1,\n 2, ; two\n 3\ny = 4\n', { x: '1, 2, 3', y: '4' }],
    ['a value that is taken back', '[a]\nx = 1\nx =\ny = ; nothing\n', { x: null, y: null }],
    ['other line ends', '[a]\r\nx = 1\r\n', { x: '1' }],
    ['a key twice', '[a]\nx = 1\nx = 2\n', { x: '2' }],
    ['lines that are none', '[a]\nnonsense\n= 1\nx = 1', { x: '1' }],
    ['odd names', '[a]\n/ = root\n__proto__ = p\na.b/c:1 = d\n', { '/': 'root', ['__proto__']: 'p', 'a.b/c:1': 'd' }],
  ])('may have %s', (_what, text, keys) => {
    expect(parsed(text)).toEqual({ a: keys })
  })

  it('may have a section in pieces, and under either name', () => {
    expect(parsed('[couchdb]\na = 1\n[x]\nb = 2\n[service]\nc = 3\n')).toEqual({
      service: { a: '1', c: '3' },
      x: { b: '2' },
    })
  })

  it('keeps everything but the one value that is replaced', () => {
    const text = '; top\n[a]\nx = 1 ; one\n[b]\nx = 1,\n 2 ; two\ny = 3'
    expect(replaceIniValue(text, 'a', 'x', '9')).toBe(text.replace('x = 1 ; one', 'x = 9 ; one'))
    expect(replaceIniValue(text, 'b', 'x', '9')).toBe('; top\n[a]\nx = 1 ; one\n[b]\nx = 9\ny = 3')
    expect(replaceIniValue(text, 'b', 'y', '9')).toBe(`${text.slice(0, -1)}9`)
    expect(replaceIniValue(text, 'b', 'z', '9')).toBe(text)
  })

  it('never throws on malformed text', () => {
    fc.assert(fc.property(fc.string({ unit: fc.constantFrom(...'[]=; \t\nax"') }), (text) => void parseIni(text)))
  })
})
