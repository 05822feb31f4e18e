/**
 * The frames that a backup is made of. A frame is a line that says its kind, the size of its payload and a CRC-32 over both,
 * then the payload and a newline. So a backup can be read with a text tool, damage is found, and a truncated file is valid up to
 * its last complete frame. `docs/backup-format.md` describes the format for other programs.
 */
import { crc32 } from 'node:zlib'

const BACKUP_FORMAT = 1

/** The first line of a stream of frames, repeated before each database in it. */
export const MAGIC = Buffer.from(`settle backup ${BACKUP_FORMAT}\n`)

export const BACKUP_TYPE = 'application/x-settle-backup'

export type FrameKind =
  | 'database'
  | 'security'
  | 'purged'
  | 'content'
  | 'bytes'
  | 'revision'
  | 'position'
  | 'local'
  | 'settings'
  | 'end'
  | 'complete'

export interface Frame {
  readonly kind: FrameKind
  readonly payload: Buffer
  /** All of it, as it is in the stream. */
  readonly raw: Buffer
  /** Where it begins and ends in its stream. */
  readonly start: number
  readonly end: number
}

/** Damage in a backup; its message says where. */
export class BackupDamagedError extends Error {
  readonly offset: number

  constructor(offset: number, problem: string) {
    super(`At byte ${offset}: ${problem}`)
    this.name = 'BackupDamagedError'
    this.offset = offset
  }
}

/** The stream ends before its last frame does. */
export class BackupCutError extends BackupDamagedError {
  constructor(offset: number) {
    super(offset, 'The stream ends in the middle of a frame.')
    this.name = 'BackupCutError'
  }
}

/** In pieces, so that a large payload is not copied. */
export function framePieces(kind: FrameKind, payload: Buffer): readonly [Buffer, Buffer, Buffer] {
  const head = `${kind} ${payload.length} `
  return [Buffer.from(`${head}${checksum(head, payload)}\n`), payload, NEWLINE]
}

export function jsonFrame(kind: FrameKind, value: unknown): Buffer {
  return Buffer.concat(framePieces(kind, Buffer.from(JSON.stringify(value))))
}

/** Larger payloads are refused, since a payload is held in memory. Documents are smaller. */
const LARGEST_PAYLOAD_BYTES = 512 * 1024 * 1024

/**
 * The frames of a stream, some at a time. Magic lines are skipped; the first bytes must be one, unless `bare`. Payloads are
 * views of the bytes that were read.
 */
export async function* readFrames(
  source: AsyncIterable<Buffer>,
  { bare = false, largestPayload = LARGEST_PAYLOAD_BYTES }: { bare?: boolean; largestPayload?: number } = {},
): AsyncGenerator<readonly Frame[]> {
  const input = new FrameInput(largestPayload, bare)
  for await (const piece of source) {
    const frames = input.add(piece)
    if (frames.length > 0) yield frames
  }
  input.finish()
}

/** The longest first line of a frame. */
const LONGEST_HEAD_BYTES = 64
const HEAD = /^([a-z]+) (\d{1,15}) ([0-9a-f]{8})$/
const NEWLINE = Buffer.from('\n')
const NEWLINE_BYTE = 0x0a

const KINDS: ReadonlySet<string> = new Set<FrameKind>([
  'database',
  'security',
  'purged',
  'content',
  'bytes',
  'revision',
  'position',
  'local',
  'settings',
  'end',
  'complete',
])

class FrameInput {
  readonly #largestPayload: number
  /** What is not a whole frame yet. */
  #pieces: Buffer[] = []
  #bytes = 0
  /** No frame is whole before so many bytes are there. */
  #neededBytes = 1
  /** Of the first byte that is held. */
  #offset = 0
  #needsMagic: boolean

  constructor(largestPayload: number, bare: boolean) {
    this.#largestPayload = largestPayload
    this.#needsMagic = !bare
  }

  add(piece: Buffer): Frame[] {
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#bytes < this.#neededBytes) return []
    const block = this.#pieces.length === 1 ? piece : Buffer.concat(this.#pieces, this.#bytes)
    const frames: Frame[] = []
    let at = 0
    for (;;) {
      const next = this.#frameAt(block, at)
      if (typeof next === 'number') {
        this.#neededBytes = next
        break
      }
      if (next.frame) frames.push(next.frame)
      at = next.end
    }
    const rest = block.subarray(at)
    this.#pieces = rest.length > 0 ? [rest] : []
    this.#bytes = rest.length
    this.#offset += at
    return frames
  }

  finish(): void {
    if (this.#bytes > 0) throw new BackupCutError(this.#offset)
    if (this.#needsMagic) throw new BackupDamagedError(0, 'It is empty.')
  }

  /** The frame that begins there, or how many bytes are needed to know more. */
  #frameAt(block: Buffer, at: number): number | { readonly frame?: Frame; readonly end: number } {
    const offset = this.#offset + at
    const lineEnd = block.indexOf(NEWLINE_BYTE, at)
    if (lineEnd < 0 || lineEnd - at > LONGEST_HEAD_BYTES) {
      if (block.length - at > LONGEST_HEAD_BYTES) throw new BackupDamagedError(offset, 'This is not a frame.')
      return block.length - at + 1
    }
    if (isMagicAt(block, at, lineEnd)) {
      this.#checkMagic(block, at, offset)
      return { end: lineEnd + 1 }
    }
    if (this.#needsMagic) throw new BackupDamagedError(offset, 'This is not a Settle backup.')
    const [, kind, size, sum] = HEAD.exec(block.toString('latin1', at, lineEnd)) ?? []
    if (kind === undefined || size === undefined || !isKind(kind)) {
      throw new BackupDamagedError(offset, 'The head of a frame cannot be read.')
    }
    const bytes = Number(size)
    if (bytes > this.#largestPayload) throw new BackupDamagedError(offset, `A frame of ${bytes} bytes is too large.`)
    const end = lineEnd + 1 + bytes
    if (end + 1 > block.length) return end + 1 - at
    const payload = block.subarray(lineEnd + 1, end)
    if (checksum(`${kind} ${size} `, payload) !== sum || block[end] !== NEWLINE_BYTE) {
      throw new BackupDamagedError(offset, `The checksum of a frame '${kind}' is wrong.`)
    }
    const raw = block.subarray(at, end + 1)
    return { frame: { kind, payload, raw, start: offset, end: this.#offset + end + 1 }, end: end + 1 }
  }

  #checkMagic(block: Buffer, at: number, offset: number): void {
    if (block.compare(MAGIC, 0, MAGIC.length, at, at + MAGIC.length) !== 0) {
      const line = block.toString('latin1', at, block.indexOf(NEWLINE_BYTE, at))
      throw new BackupDamagedError(offset, `It says '${line}'; this release reads format ${BACKUP_FORMAT}.`)
    }
    this.#needsMagic = false
  }
}

const MAGIC_WORDS = Buffer.from('settle backup ')

function isMagicAt(block: Buffer, at: number, lineEnd: number): boolean {
  const end = at + MAGIC_WORDS.length
  return end <= lineEnd && block.compare(MAGIC_WORDS, 0, MAGIC_WORDS.length, at, end) === 0
}

function isKind(text: string): text is FrameKind {
  return KINDS.has(text)
}

function checksum(head: string, payload: Buffer): string {
  return crc32(payload, crc32(head)).toString(16).padStart(8, '0')
}
