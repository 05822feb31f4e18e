/**
 * The segments of one database in a folder of backups, and the manifest that lists them. A segment gets its name when it is
 * whole and on disk. What an interruption left of one is kept as far as it is good: the next segment goes on from there.
 */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, readdir, readFile, rename, rm, stat, truncate } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { BackupDamagedError, type Frame, readFrames } from '../../backup/frame.ts'
import { hasCounts, hasTexts, SectionCheck } from '../../backup/section-check.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { flush } from '../../storage/files/store-file.ts'
import { CommandError } from '../command-error.ts'
import { replaceFile } from './replace-file.ts'

export interface Segment {
  readonly file: string
  readonly since: number
  /** Up to here everything is in this segment and those before it. */
  readonly until: number
  readonly purge_since: number
  readonly purge_until: number
  /** Whether it holds all there was: otherwise the next one goes on. */
  readonly complete: boolean
  readonly documents: number
  readonly bytes: number
  /** Of the file, as `sha256sum` prints it. */
  readonly sha256: string
  readonly made: string
  /** Of what has no sequence. */
  readonly unnumbered: string
}

interface Manifest {
  readonly format: number
  readonly name: string
  readonly uuid: string
  readonly partitioned: boolean
  readonly segments: readonly Segment[]
}

const MANIFEST = 'manifest.json'
const PARTIAL_ENDING = '.partial'
const SEGMENT_FILE = /^\d{6,}\.frames$/

export class Chain {
  readonly path: string
  #manifest: Manifest | undefined

  static empty(path: string): Chain {
    return new Chain(path, undefined)
  }

  static async read(path: string): Promise<Chain> {
    const text = await readFile(join(path, MANIFEST), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw new CommandError(`${join(path, MANIFEST)} cannot be read: ${error.message}`)
    })
    return new Chain(path, text === undefined ? undefined : manifestIn(path, text))
  }

  private constructor(path: string, manifest: Manifest | undefined) {
    this.path = path
    this.#manifest = manifest
  }

  /** Undefined where there is no segment yet. */
  get database(): { readonly name: string; readonly uuid: string; readonly partitioned: boolean } | undefined {
    return this.#manifest
  }

  get segments(): readonly Segment[] {
    return this.#manifest?.segments ?? []
  }

  /** Those that make up one state of the database: up to the last complete one. */
  get restorable(): readonly Segment[] {
    const last = this.segments.findLastIndex(({ complete }) => complete)
    return this.segments.slice(0, last + 1)
  }

  get last(): Segment | undefined {
    return this.segments.at(-1)
  }

  pathOf({ file }: Segment): string {
    return join(this.path, file)
  }

  /** Takes in what an interrupted run left. Returns how many bytes of it are good. */
  async recover(): Promise<number> {
    let recovered = 0
    const listed = new Set(this.segments.map(({ file }) => file))
    const names = (await readdir(this.path)).toSorted()
    for (const name of names) {
      if (name.endsWith('.new')) await rm(join(this.path, name))
      const file = name.endsWith(PARTIAL_ENDING) ? name.slice(0, -PARTIAL_ENDING.length) : name
      if (!SEGMENT_FILE.test(file) || listed.has(file)) continue
      recovered += await this.#adopt(name, file)
    }
    return recovered
  }

  async #adopt(name: string, file: string): Promise<number> {
    const path = join(this.path, name)
    const check = await readAsFarAsGood(path)
    const last = this.last
    // What does not follow is of no use: it was begun anew.
    const follows =
      check &&
      (last ? check.head.uuid === this.#manifest?.uuid && check.head.since === last.until : check.head.since === 0)
    if (!check || !follows || check.position === check.head.since) {
      await rm(path)
      return 0
    }
    await truncate(path, check.positionEnd)
    await flush(path)
    await rename(path, join(this.path, file))
    await this.#add(file, check)
    return check.positionEnd
  }

  /** Where the next segment is written to. */
  async begin(): Promise<SegmentWriter> {
    const number = Math.max(0, ...this.segments.map(({ file }) => Number.parseInt(file, 10))) + 1
    const file = `${String(number).padStart(6, '0')}.frames`
    const handle = await open(join(this.path, `${file}${PARTIAL_ENDING}`), 'w')
    return { file, handle }
  }

  /** The segment is whole. One that says nothing new is not kept; then this returns false. */
  async finish({ file, handle }: SegmentWriter, check: SectionCheck): Promise<boolean> {
    await handle.sync()
    await handle.close()
    const partial = join(this.path, `${file}${PARTIAL_ENDING}`)
    const last = this.last
    const isNews =
      !last?.complete ||
      check.end?.documents !== 0 ||
      check.end.purges !== 0 ||
      check.head.until !== last.until ||
      check.unnumberedDigest !== last.unnumbered
    if (!isNews) {
      await rm(partial)
      return false
    }
    await rename(partial, join(this.path, file))
    await flush(this.path)
    await this.#add(file, check)
    return true
  }

  async #add(file: string, check: SectionCheck): Promise<void> {
    const { head, position, end } = check
    const path = join(this.path, file)
    const segment: Segment = {
      file,
      since: head.since,
      until: position,
      purge_since: head.purge_since,
      purge_until: head.purge_until,
      complete: end !== undefined,
      documents: end?.documents ?? 0,
      bytes: (await stat(path)).size,
      sha256: await digestOf(path),
      made: head.made,
      unnumbered: end ? check.unnumberedDigest : '',
    }
    const { name, uuid, partitioned } = head
    this.#manifest = { format: 1, name, uuid, partitioned, segments: [...this.segments, segment] }
    await replaceFile(this.path, MANIFEST, `${JSON.stringify(this.#manifest, null, 2)}\n`)
  }
}

export interface SegmentWriter {
  readonly file: string
  readonly handle: FileHandle
}

/** Follows a stream of frames of one database while it passes; returns what they say. Throws `BackupDamagedError`. */
export async function followSection(
  pieces: AsyncIterable<Buffer>,
  onFrames: (check: SectionCheck, frames: readonly Frame[]) => void = () => {},
): Promise<SectionCheck> {
  let check: SectionCheck | undefined
  for await (const frames of readFrames(pieces)) {
    for (const frame of frames) {
      if (check) check.add(frame)
      else check = new SectionCheck(frame)
    }
    if (check) onFrames(check, frames)
  }
  if (!check) throw new BackupDamagedError(0, 'There is no frame in it.')
  return check
}

/** Undefined where nothing of it is good. */
async function readAsFarAsGood(path: string): Promise<SectionCheck | undefined> {
  let latest: SectionCheck | undefined
  try {
    return await followSection(createReadStream(path, { highWaterMark: READ_BYTES }), (check) => {
      latest = check
    })
  } catch (error) {
    if (error instanceof BackupDamagedError) return latest
    throw error
  }
}

export const READ_BYTES = 1024 * 1024

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path, { highWaterMark: READ_BYTES })) hash.update(piece)
  return hash.digest('hex')
}

function manifestIn(path: string, text: string): Manifest {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  if (isManifest(value)) return value
  throw new CommandError(
    `The manifest of ${basename(path)} is damaged. Remove ${join(path, MANIFEST)}, and the next backup makes it again from the segments.`,
    'damaged',
  )
}

function isManifest(value: unknown): value is Manifest {
  return (
    isObject(value) &&
    value.format === 1 &&
    hasTexts(value, ['name', 'uuid']) &&
    typeof value.partitioned === 'boolean' &&
    Array.isArray(value.segments) &&
    value.segments.every(isSegment)
  )
}

function isSegment(value: unknown): value is Segment {
  return (
    isObject(value) &&
    hasCounts(value, ['since', 'until', 'purge_since', 'purge_until', 'documents', 'bytes']) &&
    hasTexts(value, ['sha256', 'made', 'unnumbered']) &&
    typeof value.complete === 'boolean' &&
    typeof value.file === 'string' &&
    SEGMENT_FILE.test(value.file)
  )
}
