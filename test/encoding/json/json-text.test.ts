import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  JsonReader,
  JsonTextError,
  MAX_DEPTH,
  MAX_INTEGER_DIGITS,
  type SpecialMember,
  scanDocument,
} from '../../../src/encoding/json/json-text.ts'
import { threadMs } from '../../support/processor-time.ts'

describe('a scanned document', () => {
  it('keeps member order, digits and content, and drops white space', () => {
    expect(body('{ "b" : 1 ,\n"10":\t[ 1.50 , 1E+2 , true ],\r\n"2": { } }')).toBe(
      '{"b":1,"10":[1.50,1E+2,true],"2":{}}',
    )
  })

  it('keeps integers of any length exactly', () => {
    const digits = '9'.repeat(400)
    expect(body(`{"a":12345678901234567890,"b":-${digits}}`)).toBe(`{"a":12345678901234567890,"b":-${digits}}`)
  })

  it('writes minus zero as zero, but not minus zero point zero', () => {
    expect(body('{"a":-0,"b":[-0,-0.0,-0e1]}')).toBe('{"a":0,"b":[0,-0.0,-0e1]}')
  })

  it('escapes only quotes, backslashes and control characters', () => {
    expect(body('{"a":"\\/\\u002f\\u00e9\\u20AC\\ud83d\\ude00\\u0022\\u005c\\u000a\\u001F\\b\\u007f"}')).toBe(
      '{"a":"//é€😀\\"\\\\\\n\\u001f\\b\u007f"}',
    )
  })

  it('finds escapes at any position of a long text', () => {
    const plain = 'é'.repeat(30).concat('plain text, '.repeat(12))
    for (let at = 0; at <= plain.length; at++) {
      const text = (special: string) => `{"a":"${plain.slice(0, at)}${special}${plain.slice(at)}"}`
      for (const special of ['', '\\"', '\\\\', '\\n', '\\/']) {
        const document = scanDocument(Buffer.from(text(special)))
        expect(document.body.toString()).toBe(JSON.stringify(JSON.parse(text(special))))
        expect(document.term.includes(JSON.parse(text(special)).a)).toBe(true)
      }
      for (const special of ['\n', '\u0000', '\u001f', '\\x']) expect(() => body(text(special))).toThrow(JsonTextError)
    }
  })

  it('replaces each lone surrogate', () => {
    expect(body('{"a":"\\ud800x\\udc00\\ud83d\\ud83d\\ude00\\ud83d"}')).toBe('{"a":"\ufffdx\ufffd\ufffd😀\ufffd"}')
  })

  it.each([
    ['{"_id":"x","a":1,"_rev":"1-a"}', '{"a":1}', { _id: '"x"', _rev: '"1-a"' }],
    ['{"a":1,"_id":"x","b":2}', '{"a":1,"b":2}', { _id: '"x"' }],
    ['{"a":1,"_id":"x","_rev":null,"b":2,"_c":[ 1, {} ]}', '{"a":1,"b":2}', { _id: '"x"', _rev: 'null', _c: '[1,{}]' }],
    ['{ "a" : 1 , "_id" : "x" }', '{"a":1}', { _id: '"x"' }],
    [' { "_id" : "x" , "_y" : 1 } ', '{}', { _id: '"x"', _y: '1' }],
    ['{"\\u005fid":"x","b":{"_c":1}}', '{"b":{"_c":1}}', { _id: '"x"' }],
    ['{"_":1}', '{}', { _: '1' }],
    ['{"\\n":1,"":2}', '{"\\n":1,"":2}', {}],
  ])('sets the special members of %s apart', (text, expectedBody, expectedSpecials) => {
    const document = scanDocument(Buffer.from(text))
    expect(document.body.toString()).toBe(expectedBody)
    expect(textsOf(document.specials)).toEqual(expectedSpecials)
    expect(document.term).toEqual(scanDocument(Buffer.from(expectedBody)).term)
  })

  it('counts the members of replications as body', () => {
    const text =
      '{"_replication_id":1,"_replication_state":2,"_replication_state_time":3,"_replication_state_reason":4,"_replication_stats":{}}'
    expect(body(text)).toBe(text)
    expect(textsOf(scanDocument(Buffer.from('{"_replication_other":1}')).specials)).toEqual({ _replication_other: '1' })
  })

  it('lets the last of duplicate members count, at the place of the first', () => {
    expectScan('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}')
    expectScan('{"x":[{"a":1,"a":{"b":"}","b":"\\"{"}}]}', '{"x":[{"a":{"b":"\\"{"}}]}')
    expectScan('{"a":[],"\\u0061":[1,"]"],"é":{},"\\u00e9":null}', '{"a":[1,"]"],"é":null}')
    expect(textsOf(scanDocument(Buffer.from('{"_a":1,"_b":2,"_a":3}')).specials)).toEqual({ _a: '3', _b: '2' })
  })

  it('finds duplicates in objects of many members', () => {
    const members = Array.from({ length: 500 }, (_, index) => `"name${index}":${index}`)
    expectScan(`{${members.join(',')}}`, `{${members.join(',')}}`)
    expectScan(
      `{${members.join(',')},"name3":0,"name499":0}`,
      `{${members.with(3, '"name3":0').with(499, '"name499":0')}}`,
    )
  })

  it('does not take quadratic time for a large object', () => {
    const members = Array.from({ length: 200_000 }, (_, index) => `"${index}":0`)
    const text = Buffer.from(`{${members.join(',')}}`)
    expect(threadMs(() => scanDocument(text))).toBeLessThan(5_000)
  })

  it('grows its scratch space for large texts, and serves small ones after', () => {
    const large = `{"a":"${'é'.repeat(1_500_000)}","b":"x\\n${'y'.repeat(70_000)}"}`
    expect(body(large)).toBe(large)
    expect(body('{"a":1}')).toBe('{"a":1}')
  })

  it('gives buffers that later scans leave alone', () => {
    const first = scanDocument(Buffer.from('{"a":"first","_id":"1"}'))
    scanDocument(Buffer.from('{"a":"other","_id":"2"}'))
    expect(first.body.toString()).toBe('{"a":"first"}')
    expect(textsOf(first.specials)).toEqual({ _id: '"1"' })
  })
})

describe('strictness', () => {
  it.each([
    '',
    ' ',
    '{',
    '}',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{,}',
    '{"a":1 "b":2}',
    "{'a':1}",
    '{a:1}',
    '{"a":1}x',
    '{"a":1}{}',
    '{"a":01}',
    '{"a":-}',
    '{"a":+1}',
    '{"a":.5}',
    '{"a":1.}',
    '{"a":1e}',
    '{"a":1e+}',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":tru}',
    '{"a":nul',
    '{"a":[1,]}',
    '{"a":[1 2]}',
    '{"a":[}',
    '{"a":"\n"}',
    '{"a":"\\x"}',
    '{"a":"\\u12g4"}',
    '{"a":"\\u12',
    '{"a":"\\ud83d\\u12"}',
    '{"a":"',
    '{"a":"\\',
    '{"a":1/**/}',
    '{"a":1}\u0000',
    '\ufeff{}',
    '[]',
    '"a"',
  ])('refuses %j', (text) => {
    expect(() => scanDocument(Buffer.from(text))).toThrow(JsonTextError)
  })

  it('refuses what is not UTF-8', () => {
    expect(() => scanDocument(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toThrow('not UTF-8')
  })

  it('refuses floats beyond the range of doubles, and takes those too small for it', () => {
    expect(() => scanDocument(Buffer.from('{"a":1e309}'))).toThrow('range')
    expect(() => scanDocument(Buffer.from('{"a":-1e309}'))).toThrow('range')
    expect(body('{"a":1e-400}')).toBe('{"a":1e-400}')
  })

  it('bounds depth', () => {
    const nested = (depth: number) => Buffer.from(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)
    expect(scanDocument(nested(MAX_DEPTH)).body).toEqual(nested(MAX_DEPTH))
    expect(() => scanDocument(nested(MAX_DEPTH + 1))).toThrow('Nested deeper')
    expect(() => new JsonReader(Buffer.from('['.repeat(1_000_000))).text()).toThrow('Nested deeper')
  })

  it('bounds the digits of integers', () => {
    expect(body(`{"a":${'1'.repeat(MAX_INTEGER_DIGITS)}}`)).toHaveLength(MAX_INTEGER_DIGITS + 6)
    expect(() => body(`{"a":${'1'.repeat(MAX_INTEGER_DIGITS + 1)}}`)).toThrow('digits')
  })

  it('reports the offset of an error', () => {
    expect(() => scanDocument(Buffer.from('{"a":x}'))).toThrow('Unexpected byte 0x78 at byte 5')
    expect(() => scanDocument(Buffer.from('{"a":'))).toThrow('ends too early at byte 5')
  })
})

describe('a reader', () => {
  it('walks a bulk request in one pass', () => {
    const reader = new JsonReader(
      Buffer.from(' { "new_edits" : false, "docs" : [ {"_id":"a","x":1} , { "_id" : "b" } ], "skipped": [ {} ] } '),
    )
    const documents: string[] = []
    const parameters: Record<string, unknown> = {}
    for (const name of reader.members()) {
      if (name === 'new_edits') parameters[name] = reader.value()
      if (name === 'docs') for (const index of reader.elements()) documents[index] = reader.document().body.toString()
    }
    reader.end()
    expect(documents).toEqual(['{"x":1}', '{}'])
    expect(parameters).toEqual({ new_edits: false })
  })

  it('gives long values apart as parts of a text that is lent, unless they change', () => {
    const long = 'x'.repeat(5000)
    const values = [
      `{"data":"${long}"}`,
      `{ "data" : "${long}" }`,
      `{"data":"\\u0041${long}"}`,
      '{"data":"short"}',
      `{"data":"${long}","stub":true}`,
    ]
    const list = `[${values.map((each) => `{"a":1,"_attachments":${each},"b":2}`).join(',')}]`
    // In a memory of its own, so that copies are told from parts.
    const text = Buffer.allocUnsafeSlow(Buffer.byteLength(list))
    text.write(list)
    const read = (isLent: boolean) => {
      const reader = new JsonReader(text, { isLent })
      return reader.listOf(() => reader.document())
    }
    const lent = read(true)
    expect(lent).toEqual(read(false))
    const isPart = lent.map(({ specials: [special] }) => {
      return Buffer.isBuffer(special?.value) && special.value.buffer === text.buffer
    })
    expect(isPart).toEqual([true, false, false, false, true])
  })

  it('checks what it passes over', () => {
    const reader = new JsonReader(Buffer.from('{"a":[1,{"b":tru}]}'))
    expect(() => [...reader.members()]).toThrow(JsonTextError)
  })

  it.each(['{"a":1,}', '{"a" 1}', '{1:1}', '{"a":1', '[1,]', '[1', '[,1]'])('refuses the structure of %s', (text) => {
    const walk = () => {
      const reader = new JsonReader(Buffer.from(text))
      return reader.kind() === 'object' ? [...reader.members()] : [...reader.elements()]
    }
    expect(walk).toThrow(JsonTextError)
  })

  it('distinguishes kinds by the first byte', () => {
    const texts = ['{}', '[]', '""', '-1', '0', 'true', 'false', 'null']
    const kinds = texts.map((text) => new JsonReader(Buffer.from(` ${text}`)).kind())
    expect(kinds).toEqual(['object', 'array', 'string', 'number', 'number', 'boolean', 'boolean', 'null'])
    expect(() => new JsonReader(Buffer.from('x')).kind()).toThrow(JsonTextError)
  })

  it('reads two texts in turns', () => {
    const left = new JsonReader(Buffer.from('[{"a":1},{"a":2}]')).elements()
    const reader = new JsonReader(Buffer.from('[ {"b":1} , {"b":2} ]'))
    const bodies: string[] = []
    for (const _ of reader.elements()) {
      left.next()
      bodies.push(reader.document().body.toString())
    }
    reader.end()
    expect(bodies).toEqual(['{"b":1}', '{"b":2}'])
  })
})

describe('readers that take turns', () => {
  it('do not disturb each other, wherever their white space is', () => {
    const short = new JsonReader(Buffer.from('[ 1 , 2 ]'))
    const shortElements = short.elements()
    const gap = ' '.repeat(500)
    const long = new JsonReader(Buffer.from(`[${gap}[${gap}[${gap}{ "a" : 1${gap}}${gap}]${gap}]${gap}]`))
    const found: string[] = []
    for (const _ of long.elements()) {
      shortElements.next()
      for (const _ of long.elements()) {
        found.push(short.text().toString())
        for (const _ of long.elements()) found.push(long.document().body.toString())
      }
    }
    long.end()
    expect(found).toEqual(['1', '{"a":1}'])
  })
})

describe('laws', () => {
  it('gives text and term of every document, whatever white space and escapes it came with', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(arbitraryName, arbitraryNode)), (members) => {
        const document = objectOf(members)
        const scanned = scanDocument(Buffer.from(document.sent))
        expect(scanned.body.toString()).toBe(document.text)
        expect(scanned.term.toString('hex')).toBe(document.term.toString('hex'))
      }),
      { numRuns: 500 },
    )
  })

  it('agrees with JSON.parse on values', () => {
    fc.assert(
      fc.property(
        fc.json({ noUnicodeString: false, maxDepth: 5 }),
        fc.constantFrom(undefined, 1, '\t'),
        (json, indent) => {
          const text = JSON.stringify(JSON.parse(json), undefined, indent)
          const minified = new JsonReader(Buffer.from(text)).text().toString()
          expect(minified).toBe(JSON.stringify(JSON.parse(json)))
        },
      ),
    )
  })

  it('agrees with JSON.parse on what is JSON', () => {
    const nearlyJson = fc.oneof(
      fc
        .array(fc.constantFrom(...'{}[],:"\\u0019-+.eE \ntruefalsn_é'), { maxLength: 12 })
        .map((characters) => characters.join('')),
      fc
        .tuple(fc.json(), fc.nat(), fc.constantFrom('', ',', '"', '\\', '}', ']', '0', '-', ' ', '\u0001'))
        .map(([json, at, put]) => {
          const position = at % (json.length + 1)
          return json.slice(0, position) + put + json.slice(position + (at % 2))
        }),
    )
    fc.assert(
      fc.property(nearlyJson, (text) => {
        expect(isTaken(text.toWellFormed())).toBe(isJson(text.toWellFormed()))
      }),
      { numRuns: 3000 },
    )
  })

  it('keeps the last of duplicates as JSON.parse does', () => {
    const names = fc.constantFrom('a', 'b', 'c', '\\u0061', 'é')
    const { value } = fc.letrec<{ value: string; object: string }>((tie) => ({
      value: fc.oneof({ depthSize: 'small' }, fc.constantFrom('1', '"}"', '[]', '[{"a":1,"a":2}]'), tie('object')),
      object: fc
        .array(fc.tuple(names, tie('value')), { maxLength: 5 })
        .map((members) => `{${members.map(([name, text]) => `"${name}":${text}`).join(',')}}`),
    }))
    fc.assert(
      fc.property(value, (text) => {
        expect(body(`{"x":${text}}`)).toBe(JSON.stringify(JSON.parse(`{"x":${text}}`)))
      }),
    )
  })
})

/** A value with the text it is sent as, the text it must become, and its term, all made independently of the scanner. */
interface Node {
  readonly sent: string
  readonly text: string
  readonly term: Buffer
  readonly byte?: number
}

const arbitrarySpace = fc.constantFrom('', '', '', ' ', '\n\t', '  \r\n')

const arbitraryString = fc
  .tuple(fc.string({ unit: 'binary' }), fc.constantFrom('plain', 'escaped'))
  .map(([value, style]): Node => {
    const wellFormed = value.toWellFormed()
    const text = JSON.stringify(wellFormed)
    const escaped = Array.from({ length: wellFormed.length }, (_, index) => {
      return `\\u${wellFormed.charCodeAt(index).toString(16).padStart(4, '0')}`
    }).join('')
    return { sent: style === 'plain' ? text : `"${escaped}"`, text, term: binary(Buffer.from(wellFormed)) }
  })

const arbitraryName = fc
  .tuple(fc.uuid(), arbitraryString)
  .map(([unique, node]) => ({
    ...node,
    sent: `"${unique}${node.sent.slice(1)}`,
    text: `"${unique}${node.text.slice(1)}`,
    unique,
  }))
  .map(
    ({ unique, ...node }): Node => ({
      ...node,
      term: binary(Buffer.concat([Buffer.from(unique), node.term.subarray(5)])),
    }),
  )

const arbitraryInteger = fc
  .oneof(
    fc.bigInt({ min: 0n, max: 300n }),
    fc.bigInt({ min: -(2n ** 33n), max: 2n ** 33n }),
    fc.bigInt({ min: -(10n ** 700n), max: 10n ** 700n }),
  )
  .map((value): Node => {
    const node = { sent: `${value}`, text: `${value}`, term: integer(value) }
    return value >= 0n && value <= 255n ? { ...node, byte: Number(value) } : node
  })

const arbitraryFloat = fc
  .tuple(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.nat({ max: 20 }))
  .chain(([value, digits]) =>
    fc.constantFrom(value.toExponential(), value.toExponential(digits), `${fixed(value, digits)}`),
  )
  // Rounding to few digits may leave the range.
  .filter((text) => Number.isFinite(Number(text)))
  .map((text): Node => {
    const bytes = Buffer.alloc(9, 70)
    bytes.writeDoubleBE(Number(text), 1)
    return { sent: text, text, term: bytes }
  })

const { node: arbitraryNode } = fc.letrec<{ node: Node }>((tie) => ({
  node: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false').map((text): Node => ({ sent: text, text, term: atom(text) })),
    arbitraryString,
    arbitraryInteger,
    arbitraryFloat,
    fc
      .array(
        fc
          .integer({ min: 0, max: 255 })
          .map((value): Node => ({ sent: `${value}`, text: `${value}`, term: integer(BigInt(value)), byte: value })),
      )
      .map(arrayOf),
    fc.tuple(fc.array(tie('node')), arbitrarySpace).map(([elements, space]) => arrayOf(elements, space)),
    fc
      .tuple(fc.array(fc.tuple(arbitraryName, tie('node'))), arbitrarySpace)
      .map(([members, space]) => objectOf(members, space)),
  ),
}))

function arrayOf(elements: readonly Node[], space: unknown = ''): Node {
  const gap = typeof space === 'string' ? space : ''
  return {
    sent: `[${gap}${elements.map((element) => element.sent).join(`${gap},${gap}`)}${gap}]`,
    text: `[${elements.map((element) => element.text).join(',')}]`,
    term: arrayTerm(elements),
  }
}

function arrayTerm(elements: readonly Node[]): Buffer {
  const bytes = elements.flatMap((element) => (element.byte === undefined ? [] : [element.byte]))
  if (elements.length === 0 || bytes.length < elements.length) return list(elements.map((element) => element.term))
  return Buffer.from([107, bytes.length >> 8, bytes.length & 255, ...bytes])
}

function objectOf(members: readonly (readonly [Node, Node])[], space = ''): Node {
  return {
    sent: `{${space}${members.map(([name, value]) => `${name.sent}${space}:${space}${value.sent}`).join(`${space},`)}${space}}`,
    text: `{${members.map(([name, value]) => `${name.text}:${value.text}`).join(',')}}`,
    term: Buffer.concat([
      Buffer.from([104, 1]),
      list(members.map(([name, value]) => Buffer.concat([Buffer.from([104, 2]), name.term, value.term]))),
    ]),
  }
}

function list(terms: readonly Buffer[]): Buffer {
  if (terms.length === 0) return Buffer.from([106])
  const head = Buffer.alloc(5, 108)
  head.writeUInt32BE(terms.length, 1)
  return Buffer.concat([head, ...terms, Buffer.from([106])])
}

function binary(content: Buffer): Buffer {
  const head = Buffer.alloc(5, 109)
  head.writeUInt32BE(content.length, 1)
  return Buffer.concat([head, content])
}

function atom(name: string): Buffer {
  return Buffer.from([100, 0, name.length, ...Buffer.from(name)])
}

function integer(value: bigint): Buffer {
  if (value >= 0n && value <= 255n) return Buffer.from([97, Number(value)])
  if (BigInt.asIntN(32, value) === value) {
    const bytes = Buffer.alloc(5, 98)
    bytes.writeInt32BE(Number(value), 1)
    return bytes
  }
  const magnitude: number[] = []
  for (let rest = value < 0n ? -value : value; rest > 0n; rest >>= 8n) magnitude.push(Number(rest & 255n))
  const size =
    magnitude.length <= 255 ? [110, magnitude.length] : [111, 0, 0, magnitude.length >> 8, magnitude.length & 255]
  return Buffer.from([...size, value < 0n ? 1 : 0, ...magnitude])
}

/** A decimal that is short enough to be written without an exponent. */
function fixed(value: number, digits: number): string {
  return Math.abs(value) < 1e15 ? value.toFixed(digits + 1) : value.toExponential()
}

function isTaken(text: string): boolean {
  try {
    const reader = new JsonReader(Buffer.from(text))
    reader.text()
    reader.end()
    return true
  } catch (error) {
    expect(error).toBeInstanceOf(JsonTextError)
    return false
  }
}

/** JSON without numbers out of range. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text, (_, value) => {
      if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) throw new Error('out of range')
      return value
    })
    return true
  } catch {
    return false
  }
}

function body(text: string): string {
  return scanDocument(Buffer.from(text)).body.toString()
}

function expectScan(text: string, expected: string): void {
  const { body, term } = scanDocument(Buffer.from(text))
  expect(body.toString()).toBe(expected)
  expect(term).toEqual(scanDocument(Buffer.from(expected)).term)
}

function textsOf(specials: readonly SpecialMember[]): Record<string, string> {
  const textOf = (value: string | Buffer) => (typeof value === 'string' ? JSON.stringify(value) : value.toString())
  return Object.fromEntries(specials.map(({ name, value }) => [name, textOf(value)]))
}
