import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  BackupCutError,
  BackupDamagedError,
  type Frame,
  framePieces,
  MAGIC,
  readFrames,
} from '../../src/backup/frame.ts'

async function framesIn(pieces: readonly Buffer[]): Promise<Frame[]> {
  const frames: Frame[] = []
  const source = async function* () {
    yield* pieces
  }
  for await (const some of readFrames(source())) frames.push(...some)
  return frames
}

const kinds = fc.constantFrom('revision', 'bytes', 'local', 'position')
const payload = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes))
const stream = fc.array(fc.tuple(kinds, payload), { minLength: 1, maxLength: 10 })

function bytesOf(frames: readonly (readonly ['revision' | 'bytes' | 'local' | 'position', Buffer])[]): Buffer {
  return Buffer.concat([MAGIC, ...frames.flatMap(([kind, bytes]) => framePieces(kind, bytes))])
}

describe('frames', () => {
  it('are read as they were written, however the stream is split', async () => {
    await fc.assert(
      fc.asyncProperty(stream, fc.array(fc.nat(2000), { maxLength: 8 }), async (written, cuts) => {
        const bytes = bytesOf(written)
        const places = [0, ...cuts.map((cut) => cut % bytes.length).toSorted((a, b) => a - b), bytes.length]
        const pieces = places.slice(1).map((end, i) => bytes.subarray(places[i], end))
        const read = await framesIn(pieces)
        expect(read.map(({ kind, payload }) => [kind, payload])).toEqual(written)
        expect(Buffer.concat([MAGIC, ...read.map(({ raw }) => raw)])).toEqual(bytes)
        expect(read.at(-1)?.end).toBe(bytes.length)
      }),
    )
  })

  it('reveal every changed byte', async () => {
    await fc.assert(
      fc.asyncProperty(stream, fc.nat(5000), fc.integer({ min: 1, max: 255 }), async (written, place, mask) => {
        const bytes = bytesOf(written)
        bytes[place % bytes.length]! ^= mask
        await expect(framesIn([bytes])).rejects.toThrow(BackupDamagedError)
      }),
    )
  })

  it('reveal where a stream was cut off', async () => {
    const bytes = bytesOf([
      ['revision', Buffer.from('{"_id":"a"}')],
      ['bytes', Buffer.alloc(1000)],
    ])
    const whole = new Set([MAGIC.length, bytesOf([['revision', Buffer.from('{"_id":"a"}')]]).length])
    for (let end = 1; end < bytes.length; end++) {
      const reading = framesIn([bytes.subarray(0, end)])
      if (whole.has(end)) await reading
      else await expect(reading).rejects.toThrow(BackupCutError)
    }
    await expect(framesIn([])).rejects.toThrow('It is empty.')
  })

  it('of another format are refused with a message', async () => {
    await expect(framesIn([Buffer.from('settle backup 2\n')])).rejects.toThrow(
      "It says 'settle backup 2'; this release reads format 1.",
    )
    await expect(framesIn([Buffer.from('something else\n')])).rejects.toThrow('This is not a Settle backup.')
  })

  it('that claim to be huge are refused before they are read', async () => {
    const huge = Buffer.from('revision 999999999999 00000000\n')
    await expect(framesIn([MAGIC, huge])).rejects.toThrow('too large')
  })
})
