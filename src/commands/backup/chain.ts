/**
 * The segments of one database in a folder of backups, and the manifest that lists them. A segment gets its name when it is
 * complete and on disk. The valid part of an interrupted segment is kept, and the next segment continues from there.
 */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, readdir, readFile, rename, rm, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { BackupDamagedError, type Frame, readFrames } from '../../backup/frame.ts'
import { hasCounts, hasTexts, SectionCheck } from '../../backup/section-check.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { flush } from '../../storage/files/store-file.ts'
import { CommandError, messageOf } from '../command-error.ts'
import { replaceFile } from './replace-file.ts'

export interface Segment {
  readonly file: string
  readonly since: number
  /** Everything up to this sequence is in this segment and those before it. */
  readonly until: number
  readonly purge_since: number
  readonly purge_until: number
  /** Whether it reaches the end of its snapshot: otherwise the next one continues. */
  readonly complete: boolean
  readonly documents: number
  readonly bytes: number
  /** Of the file, as `sha256sum` prints it. */
  readonly sha256: string
  readonly made: string
  /** The digest of everything without a sequence. */
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
const PARTIAL_FILE = /^\d{6,}\.frames\.partial$/

const WHOLE = { isDerived: false, faults: [] }

export class Chain {
  readonly path: string
  /** Faults of the chain as a whole. Its segments are listed as far as they can be read. */
  readonly faults: readonly string[]
  /** The manifest was made from the segments, and is not on disk. */
  readonly #isDerived: boolean
  #hasUnlisted = false
  #manifest: Manifest | undefined

  static empty(path: string): Chain {
    return new Chain(path, undefined)
  }

  /** A missing or damaged manifest is made again from the segments. */
  static async read(path: string): Promise<Chain> {
    const text = await readFile(join(path, MANIFEST), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw new CommandError(`${join(path, MANIFEST)} cannot be read: ${error.message}`)
    })
    const manifest = text === undefined ? undefined : manifestIn(text)
    if (manifest) return new Chain(path, manifest)
    const { fault, ...derived } = await derivedManifest(path)
    const faults = [...(text === undefined ? [] : [`${MANIFEST} is damaged.`]), ...(fault === undefined ? [] : [fault])]
    return new Chain(path, derived.manifest, { isDerived: true, faults })
  }

  private constructor(
    path: string,
    manifest: Manifest | undefined,
    { isDerived, faults }: { readonly isDerived: boolean; readonly faults: readonly string[] } = WHOLE,
  ) {
    this.path = path
    this.#manifest = manifest
    this.#isDerived = isDerived
    this.faults = faults
  }

  /** Undefined where there is no segment yet. */
  get database(): { readonly name: string; readonly uuid: string; readonly partitioned: boolean } | undefined {
    return this.#manifest
  }

  get segments(): readonly Segment[] {
    return this.#manifest?.segments ?? []
  }

  /** The segments up to the last complete one: together they are one state of the database. */
  get restorable(): readonly Segment[] {
    const last = this.segments.findLastIndex(({ complete }) => complete)
    return this.segments.slice(0, last + 1)
  }

  get last(): Segment | undefined {
    return this.segments.at(-1)
  }

  /** Whether `recover` found finished segments that are damaged, or do not follow the last one. Such a chain must not be extended. */
  get hasUnlisted(): boolean {
    return this.#hasUnlisted
  }

  pathOf({ file }: Segment): string {
    return join(this.path, file)
  }

  /** Adds what an interrupted run left. Returns how many bytes of it are valid. Finished segments are never changed. */
  async recover(): Promise<number> {
    let recovered = 0
    const listed = new Set(this.segments.map(({ file }) => file))
    const names = (await readdir(this.path)).toSorted()
    for (const name of names) {
      if (name.endsWith('.new')) await rm(join(this.path, name))
      else if (SEGMENT_FILE.test(name) && !listed.has(name)) await this.#adoptFinished(name)
      else if (PARTIAL_FILE.test(name)) recovered += await this.#adoptPartial(name)
    }
    const known = new Set(this.segments.map(({ file }) => file))
    this.#hasUnlisted = names.some((name) => SEGMENT_FILE.test(name) && !known.has(name))
    if (this.#isDerived && !this.#hasUnlisted) await this.#writeManifest()
    return recovered
  }

  async #writeManifest(): Promise<void> {
    if (this.#manifest) await replaceFile(this.path, MANIFEST, `${JSON.stringify(this.#manifest, null, 2)}\n`)
  }

  /** Adds a finished segment that the manifest does not list: the run ended in between. */
  async #adoptFinished(file: string): Promise<void> {
    const check = await readValidPart(join(this.path, file))
    if (check && this.#follows(check) && (await stat(join(this.path, file))).size === check.positionEnd)
      await this.#add(file, check)
  }

  async #adoptPartial(name: string): Promise<number> {
    const path = join(this.path, name)
    const file = name.slice(0, -PARTIAL_ENDING.length)
    const check = await readValidPart(path)
    // A segment that does not follow cannot be used: it is written again.
    if (!check || !this.#follows(check) || check.position === check.head.since) {
      await rm(path)
      return 0
    }
    await truncate(path, check.positionEnd)
    await flush(path)
    await rename(path, join(this.path, file))
    await this.#add(file, check)
    return check.positionEnd
  }

  #follows({ head }: SectionCheck): boolean {
    const { last } = this
    return last ? head.uuid === this.#manifest?.uuid && head.since === last.until : head.since === 0
  }

  /** Creates the file of the next segment. */
  async begin(): Promise<SegmentWriter> {
    const names = (await readdir(this.path)).filter((name) => SEGMENT_FILE.test(name))
    const number = Math.max(0, ...names.map((name) => Number.parseInt(name, 10))) + 1
    const file = `${String(number).padStart(6, '0')}.frames`
    const handle = await open(join(this.path, `${file}${PARTIAL_ENDING}`), 'w')
    return { file, handle }
  }

  /** Finishes a complete segment. Returns false where it has nothing new, and is not kept. */
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
    const segment = await segmentOf(this.path, file, check)
    if (segment.bytes !== check.positionEnd)
      throw new CommandError(`${file} has ${segment.bytes} bytes; ${check.positionEnd} were written.`, 'incomplete')
    const { name, uuid, partitioned } = check.head
    this.#manifest = { format: 1, name, uuid, partitioned, segments: [...this.segments, segment] }
    await this.#writeManifest()
  }
}

export interface SegmentWriter {
  readonly file: string
  readonly handle: FileHandle
}

/** Checks the frames of one database while they are streamed. Throws `BackupDamagedError`. */
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
  if (!check) throw new BackupDamagedError(0, 'It has no frames.')
  return check
}

async function segmentOf(folder: string, file: string, check: SectionCheck): Promise<Segment> {
  const { head, position, end } = check
  const path = join(folder, file)
  return {
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
}

/** The manifest according to the segments, up to the first one that is damaged or does not follow. */
async function derivedManifest(
  folder: string,
): Promise<{ readonly manifest: Manifest | undefined; readonly fault: string | undefined }> {
  const files = (await readdir(folder)).filter((name) => SEGMENT_FILE.test(name)).toSorted()
  let manifest: Manifest | undefined
  for (const file of files) {
    try {
      const check = await followSection(createReadStream(join(folder, file), { highWaterMark: READ_BYTES }))
      const segment = await segmentOf(folder, file, check)
      const { name, uuid, partitioned, since } = check.head
      if (segment.bytes !== check.positionEnd) throw new CommandError('It has frames after its last position.')
      if (since !== (manifest?.segments.at(-1)?.until ?? 0) || uuid !== (manifest?.uuid ?? uuid))
        throw new CommandError('It does not continue where the segment before it ends.')
      manifest = { format: 1, name, uuid, partitioned, segments: [...(manifest?.segments ?? []), segment] }
    } catch (error) {
      return { manifest, fault: `${file}: ${messageOf(error)}` }
    }
  }
  return { manifest, fault: undefined }
}

/** Undefined where no part of it is valid. */
async function readValidPart(path: string): Promise<SectionCheck | undefined> {
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

/** Undefined where it is damaged. */
function manifestIn(text: string): Manifest | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isManifest(value) ? value : undefined
  } catch {
    return undefined
  }
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
