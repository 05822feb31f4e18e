/**
 * Sends the documents of one section of a backup to a database, some megabytes at a time. A section begins with the frame
 * `database` and ends with the frame `end`; every frame is checked. Requests end at frames `position`, so that an interrupted
 * restore can continue there.
 */
import type { DatabaseHead } from '../../backup/database-frames.ts'
import { BACKUP_TYPE, BackupDamagedError, type Frame } from '../../backup/frame.ts'
import { databasesIn, SectionCheck } from '../../backup/section-check.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { CommandError } from '../command-error.ts'
import { databasePath, type ServerClient } from '../server-client.ts'
import type { DigestSet } from './digest-set.ts'
import { type FrameCursor, idOfContent, idOfRevision } from './frame-cursor.ts'

export interface SectionPlan {
  /** The database that is written to. */
  readonly target: string
  /** Documents that are left out: a newer section has them. */
  readonly newer: DigestSet | undefined
  /** Takes the ids of the documents in this section, where older ones follow. */
  readonly seen: DigestSet | undefined
  /** Everything up to this sequence was written by an earlier attempt; all of it where it is infinite. */
  readonly doneUntil: number
  readonly withLocals: boolean
  /** Called when everything up to the sequence is on the server. */
  onPosition(sequence: number): Promise<void>
}

export interface SectionResult {
  readonly revisions: number
  readonly refused: readonly string[]
  /** Ids that were purged before this section was made. */
  readonly purged: readonly string[]
  /** The checked frames. The caller checks that they are complete. */
  readonly check: SectionCheck
}

/** The least bytes of a request, unless it is the last one. */
const REQUEST_BYTES = 4 * 1024 * 1024
const PIECE_BYTES = 256 * 1024
const MARKER_ID = 'settle-restore'

/** Restores the frames after the frame `database`, up to the frame `end` if there is one. */
export async function restoreSection(
  client: ServerClient,
  cursor: FrameCursor,
  first: Frame,
  plan: SectionPlan,
): Promise<SectionResult> {
  const check = new SectionCheck(first)
  const section = new Section(check, cursor, plan)
  const refused: string[] = []
  let revisions = 0
  for (;;) {
    const wanted = await section.nextWanted()
    if (!wanted) break
    const answer = await client.send(`${databasePath(plan.target)}/_restore`, BACKUP_TYPE, section.request(wanted))
    const outcome = isObject(answer) ? answer : {}
    revisions += Number(outcome.revisions ?? 0)
    if (Array.isArray(outcome.refused)) refused.push(...outcome.refused.map(refusalText))
    // A later run must send what was refused again, and report it again.
    if (refused.length === 0) await plan.onPosition(section.position)
  }
  return { revisions, refused, purged: section.purged, check }
}

function refusalText(value: unknown): string {
  const { id, rev, error, reason } = isObject(value) ? value : {}
  return `${id} ${rev} is refused: ${error}. ${reason}`
}

class Section {
  readonly #check: SectionCheck
  readonly #cursor: FrameCursor
  readonly #plan: SectionPlan
  readonly purged: string[] = []
  /** Whether the bytes of the last content are skipped. */
  #skipsBytes = false
  #document: string | undefined
  /** Whether no newer section has the document. */
  #isNew = true

  constructor(check: SectionCheck, cursor: FrameCursor, plan: SectionPlan) {
    this.#check = check
    this.#cursor = cursor
    this.#plan = plan
  }

  get position(): number {
    return this.#check.position
  }

  /** The next frame to send; undefined at the end of the section. */
  async nextWanted(): Promise<Frame | undefined> {
    for (let frame = await this.#take(); frame; frame = await this.#take()) {
      if (this.#isWanted(frame)) return frame
    }
    return undefined
  }

  /** The body of a request: this frame and those that follow, up to a position. */
  async *request(first: Frame): AsyncGenerator<Buffer> {
    let pieces: Buffer[] = []
    let pending = 0
    let sent = 0
    for (let frame: Frame | undefined = first; frame; frame = await this.nextWantedInRequest(sent)) {
      if (frame.kind === 'position') continue
      pieces.push(frame.raw)
      pending += frame.raw.length
      sent += frame.raw.length
      if (pending < PIECE_BYTES) continue
      yield Buffer.concat(pieces, pending)
      pieces = []
      pending = 0
    }
    if (pending > 0) yield Buffer.concat(pieces, pending)
  }

  /** Undefined where the request may end. */
  async nextWantedInRequest(sent: number): Promise<Frame | undefined> {
    for (let frame = await this.#take(); frame; frame = await this.#take()) {
      if (frame.kind === 'position' && sent >= REQUEST_BYTES) return undefined
      if (this.#isWanted(frame)) return frame
    }
    return undefined
  }

  async #take(): Promise<Frame | undefined> {
    if (this.#check.end) return undefined
    const frame = await this.#cursor.take()
    if (frame) this.#check.add(frame)
    return frame
  }

  #isWanted(frame: Frame): boolean {
    switch (frame.kind) {
      case 'content':
        this.#skipsBytes = !this.#isWantedId(idOfContent(frame))
        return !this.#skipsBytes
      case 'bytes':
        return !this.#skipsBytes
      case 'revision':
        return this.#isWantedId(idOfRevision(frame))
      case 'local':
        return this.#plan.withLocals && idOfRevision(frame) !== `_local/${MARKER_ID}`
      case 'purged':
        this.purged.push(...purgedIds(frame))
        return false
      default:
        return false
    }
  }

  #isWantedId(id: string): boolean {
    const { newer, seen, doneUntil } = this.#plan
    // All frames of a document follow each other.
    if (id !== this.#document) {
      this.#document = id
      this.#isNew = !newer?.has(id)
      if (this.#isNew) seen?.add(id)
    }
    return this.#isNew && this.#check.position >= doneUntil
  }
}

function purgedIds({ payload, start }: Frame): string[] {
  const value: unknown = JSON.parse(payload.toString())
  if (!isObject(value)) throw new BackupDamagedError(start, "A frame 'purged' cannot be understood.")
  return Object.keys(value)
}

/**
 * The progress of a restore, kept in the restored database, so that an interrupted restore can continue. It stays when the
 * database is complete: if the run ends before the other databases are, this one is not restored again.
 */
export class RestoreMarker {
  readonly #client: ServerClient
  readonly #path: string
  readonly #backup: string
  #revision: string | undefined
  #segment = ''
  #sequence = 0
  #isDone = false

  /** `backup` is the same for the same state of the same backup. */
  constructor(client: ServerClient, target: string, backup: string) {
    this.#client = client
    this.#path = `${databasePath(target)}/_local/${MARKER_ID}`
    this.#backup = backup
  }

  get segment(): string {
    return this.#segment
  }

  get sequence(): number {
    return this.#sequence
  }

  /** Whether the backup was restored completely. */
  get isDone(): boolean {
    return this.#isDone
  }

  /** Whether there was an earlier attempt with the same backup. Throws where one with another backup was interrupted. */
  async read(): Promise<boolean> {
    const value = await this.#client.find(this.#path)
    if (!isObject(value)) return false
    if (value.backup !== this.#backup && value.done === true) {
      this.#revision = String(value._rev)
      return false
    }
    if (value.backup !== this.#backup) {
      throw new CommandError(
        'A restore of another backup was interrupted in this database. Delete the database, or finish that restore.',
      )
    }
    this.#revision = String(value._rev)
    this.#segment = String(value.segment ?? '')
    this.#sequence = Number(value.seq ?? 0)
    this.#isDone = value.done === true
    return true
  }

  async write(segment: string, sequence: number): Promise<void> {
    await this.#put({ segment, seq: sequence })
  }

  async finish(): Promise<void> {
    await this.#put({ done: true })
  }

  async #put(progress: object): Promise<void> {
    const document = { backup: this.#backup, ...progress, ...(this.#revision && { _rev: this.#revision }) }
    const written = await this.#client.json('PUT', this.#path, document)
    this.#revision = isObject(written) ? String(written.rev) : undefined
  }
}

/** The frame `database` of a section, and the security object after it. */
export interface SectionBegin {
  readonly first: Frame
  readonly head: DatabaseHead
  readonly security: unknown
}

/** The other parts of a stream. */
export interface StreamParts {
  settings?: unknown
  /** The list in its last frame. */
  databases?: readonly string[]
}

/** Undefined where there is no section left. Frames before the next one are skipped. */
export async function beginSection(cursor: FrameCursor, parts: StreamParts = {}): Promise<SectionBegin | undefined> {
  for (let frame = await cursor.take(); frame; frame = await cursor.take()) {
    if (frame.kind === 'settings') parts.settings = JSON.parse(frame.payload.toString())
    if (frame.kind === 'complete') parts.databases = databasesIn(frame)
    if (frame.kind !== 'database') continue
    const { head } = new SectionCheck(frame)
    const next = await cursor.peek()
    const security: unknown = next?.kind === 'security' ? JSON.parse(next.payload.toString()) : undefined
    return { first: frame, head, security }
  }
  return undefined
}
