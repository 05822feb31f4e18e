import { describe, expect, it } from 'vitest'
import { TermWriter } from '../../../src/encoding/bytes/erlang-term.ts'

describe('the term format', () => {
  it.each<[string, string, (term: TermWriter) => void]>([
    ['null', '6400046e756c6c', (term) => term.null()],
    ['true', '64000474727565', (term) => term.boolean(true)],
    ['false', '64000566616c7365', (term) => term.boolean(false)],
    ['0', '6100', (term) => term.integer(0)],
    ['255', '61ff', (term) => term.integer(255)],
    ['256', '6200000100', (term) => term.integer(256)],
    ['-1', '62ffffffff', (term) => term.integer(-1)],
    ['-2^31', '6280000000', (term) => term.integer(-(2 ** 31))],
    ['2^31', '6e040000000080', (term) => term.integer(2 ** 31)],
    ['-2^31 - 1', '6e040101000080', (term) => term.integer(-(2 ** 31) - 1)],
    ['2^64', '6e0900000000000000000001', (term) => term.bigInteger(2n ** 64n)],
    ['1.5', '463ff8000000000000', (term) => term.float(1.5)],
    ['a text', '6d00000002c3a9', (term) => term.text('é')],
    ['a pair', '68026100', (term) => [term.tuple(2), term.integer(0)]],
    ['an empty list', '6a', (term) => term.closeList(term.openList(), 0)],
    ['an empty list of bytes', '6a', (term) => term.closeByteList(term.openList(), 0)],
  ])('writes %s', (_, bytes, write) => {
    const term = new TermWriter(1)
    write(term)
    expect(term.copy().toString('hex')).toBe(bytes)
  })

  it('writes a safe integer beyond 32 bits as it writes the same one of any length', () => {
    const values = [2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 40, 1_763_280_000_123, Number.MAX_SAFE_INTEGER]
    for (const value of values.flatMap((each) => [each, -each - 1, -each])) {
      if (value === -(2 ** 31) || !Number.isSafeInteger(value)) continue
      const written = [new TermWriter(1), new TermWriter(1)]
      written[0]!.integer(value)
      written[1]!.bigInteger(BigInt(value))
      expect(written[0]!.copy().toString('hex')).toBe(written[1]!.copy().toString('hex'))
    }
  })

  it('takes four bytes for the length of an integer of more than 255 bytes', () => {
    const term = new TermWriter()
    term.bigInteger(-(256n ** 255n))
    expect(term.copy().toString('hex')).toBe(`6f0000010001${'00'.repeat(255)}01`)
  })

  it('packs a list of up to 65535 bytes', () => {
    expect(listOfBytes(3).toString('hex')).toBe('6b0003070707')
    expect(listOfBytes(65535).subarray(0, 4).toString('hex')).toBe('6bffff07')
    expect(listOfBytes(65535)).toHaveLength(3 + 65535)
    expect(listOfBytes(65536).subarray(0, 7).toString('hex')).toBe('6c000100006107')
  })

  it('gives back the room of a large term', () => {
    const term = new TermWriter(16)
    term.binary(Buffer.alloc(3_000_000))
    term.clear()
    expect(term.bytes.length).toBe(16)
  })
})

function listOfBytes(count: number): Buffer {
  const term = new TermWriter(16)
  const list = term.openList()
  for (let index = 0; index < count; index++) term.integer(7)
  term.closeByteList(list, count)
  return term.copy()
}
