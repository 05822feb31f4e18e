/**
 * Checks the frames of one database of a backup, from its frame `database` to its frame `end`, against the counts and the digest
 * in the last frame.
 */
import { createHash } from 'node:crypto'
import { isObject } from '../encoding/json/json-value.ts'
import type { DatabaseEnd, DatabaseHead } from './database-frames.ts'
import { BackupDamagedError, type Frame, MAGIC } from './frame.ts'

export class SectionCheck {
  readonly head: DatabaseHead
  readonly #hash = createHash('sha256').update(MAGIC)
  /** Of what has no sequence: the security object and the local documents. */
  readonly #unnumbered = createHash('sha256')
  #bytes = MAGIC.length
  #position: number
  #positionEnd: number
  #end: DatabaseEnd | undefined
  #revisions = 0
  #contents = 0
  #purges = 0
  #locals = 0

  /** Begins with the frame `database`. */
  constructor(first: Frame) {
    if (first.kind !== 'database') throw new BackupDamagedError(first.start, "A frame 'database' is missing.")
    this.head = headIn(first)
    this.#position = this.head.since
    this.#positionEnd = first.end
    this.#pass(first)
  }

  /** Everything up to this sequence is there. */
  get position(): number {
    return this.#end ? this.head.until : this.#position
  }

  /** Where that ends in the stream. */
  get positionEnd(): number {
    return this.#positionEnd
  }

  /** The payload of the last frame; undefined until it is read. */
  get end(): DatabaseEnd | undefined {
    return this.#end
  }

  /** Equal for two backups in which everything without a sequence is equal. */
  get unnumberedDigest(): string {
    return this.#unnumbered
      .copy()
      .update(JSON.stringify([this.head.revs_limit, this.head.purged_infos_limit]))
      .digest('hex')
  }

  /** The next frame. Throws `BackupDamagedError`. */
  add(frame: Frame): void {
    if (this.#end) throw new BackupDamagedError(frame.start, "A frame follows the frame 'end'.")
    switch (frame.kind) {
      case 'end':
        this.#finish(frame)
        return
      case 'position':
        this.#position = positionIn(frame)
        this.#positionEnd = frame.end
        break
      case 'revision':
        this.#revisions++
        break
      case 'content':
        this.#contents++
        break
      case 'purged':
        this.#purges++
        break
      case 'local':
        this.#locals++
        this.#unnumbered.update(frame.raw)
        break
      case 'security':
        this.#unnumbered.update(frame.raw)
        break
      case 'bytes':
        break
      case 'database':
      case 'settings':
      case 'complete':
        throw new BackupDamagedError(frame.start, `A frame '${frame.kind}' comes before the frame 'end'.`)
    }
    this.#pass(frame)
  }

  #pass({ raw }: Frame): void {
    this.#hash.update(raw)
    this.#bytes += raw.length
  }

  #finish(frame: Frame): void {
    const end = endIn(frame)
    const { revisions, contents, purges, locals, bytes, sha256 } = end
    const isWhole =
      revisions === this.#revisions &&
      contents === this.#contents &&
      purges === this.#purges &&
      locals === this.#locals &&
      bytes === this.#bytes
    if (!isWhole) throw new BackupDamagedError(frame.start, "Frames are missing: the frame 'end' counts others.")
    if (sha256 !== this.#hash.digest('hex'))
      throw new BackupDamagedError(frame.start, 'The digest of all frames is wrong.')
    this.#end = end
    this.#positionEnd = frame.end
  }
}

function headIn(frame: Frame): DatabaseHead {
  const value = objectIn(frame)
  if (isHead(value)) return value
  throw new BackupDamagedError(frame.start, "The frame 'database' cannot be understood.")
}

const HEAD_COUNTS = [
  'since',
  'until',
  'purge_since',
  'purge_until',
  'revs_limit',
  'purged_infos_limit',
  'doc_count',
  'doc_del_count',
]
const HEAD_TEXTS = ['name', 'uuid', 'made', 'version']

function isHead(value: unknown): value is DatabaseHead {
  return (
    hasCounts(value, HEAD_COUNTS) &&
    hasTexts(value, HEAD_TEXTS) &&
    isObject(value) &&
    typeof value.partitioned === 'boolean'
  )
}

function endIn(frame: Frame): DatabaseEnd {
  const value = objectIn(frame)
  if (isEnd(value)) return value
  throw new BackupDamagedError(frame.start, "The frame 'end' cannot be understood.")
}

function isEnd(value: unknown): value is DatabaseEnd {
  return (
    hasCounts(value, ['documents', 'revisions', 'contents', 'purges', 'locals', 'bytes']) && hasTexts(value, ['sha256'])
  )
}

function positionIn(frame: Frame): number {
  const value = objectIn(frame)
  if (isObject(value) && typeof value.seq === 'number' && Number.isSafeInteger(value.seq)) return value.seq
  throw new BackupDamagedError(frame.start, "A frame 'position' cannot be understood.")
}

function objectIn({ payload, start }: Frame): unknown {
  try {
    return JSON.parse(payload.toString())
  } catch {
    throw new BackupDamagedError(start, 'A frame is not JSON.')
  }
}

/** Which databases a stream holds, by its last frame. */
export function databasesIn(frame: Frame): readonly string[] {
  const value = objectIn(frame)
  const names = isObject(value) ? value.databases : undefined
  if (Array.isArray(names) && names.every((name) => typeof name === 'string')) return names
  throw new BackupDamagedError(frame.start, "The frame 'complete' cannot be understood.")
}

export function hasCounts(value: unknown, names: readonly string[]): boolean {
  return isObject(value) && names.every((name) => Number.isSafeInteger(value[name]) && Number(value[name]) >= 0)
}

export function hasTexts(value: unknown, names: readonly string[]): boolean {
  return isObject(value) && names.every((name) => typeof value[name] === 'string')
}
