/**
 * A database that takes part in a replication, on this server or on another one. The protocol uses only these
 * interfaces, with or without a network in between.
 */
import type { OnlyRevision } from '../../database/changes/stored-changes.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { ReplicationFilter, ReplicationRequest } from '../replication-request.ts'
import type { Sequence } from './sequence.ts'
import type { TransferredDocument } from './transferred-document.ts'

export interface PeerInformation {
  readonly updateSequence: Sequence
  /** It changes when the database is reopened; undefined if the peer does not send it. */
  readonly instanceStartTime: string | undefined
}

/** A local document, as a peer holds it. */
export interface StoredLog {
  readonly revision: string
  readonly members: Readonly<Record<string, JsonValue>>
}

export interface Peer {
  /** For logs and replies. */
  readonly shown: string
  /** Throws a `RequestError` where the database cannot be opened. */
  information(): Promise<PeerInformation>
  readLog(id: string): Promise<StoredLog | undefined>
  /** Gives the new revision. Throws a conflict where the stored revision is another one. */
  writeLog(id: string, log: object, revision: string | undefined): Promise<string>
  /** Resolves when everything that was written is on disk; gives the instance start time of the database. */
  flush(): Promise<string | undefined>
}

/** Opens the peers of a replication. The signal ends what they have under way. */
export interface PeerOpener {
  source(request: ReplicationRequest, signal: AbortSignal): Promise<SourcePeer>
  /** Creates the database where that is asked for. */
  target(request: ReplicationRequest, signal: AbortSignal): Promise<TargetPeer>
}

/** Revisions that the target lacks. */
export interface WantedDocument {
  readonly id: string
  readonly revisions: readonly string[]
  /** Revisions that the target has: their attachments need not be sent. */
  readonly known: readonly string[]
  /** As the change had it. */
  readonly only?: OnlyRevision | undefined
}

export interface ChangedDocument {
  readonly id: string
  readonly revisions: readonly string[]
  /** What a local source knows of a document with one revision; passed back to it with the wanted revisions. */
  readonly only?: OnlyRevision | undefined
}

export interface ChangeBatch {
  readonly changes: readonly ChangedDocument[]
  /** The sequence from which a feed continues after these changes. */
  readonly lastSequence: Sequence
}

export interface FeedOptions {
  readonly since: Sequence
  readonly continuous: boolean
  readonly leaves: 'winner' | 'all'
  readonly filter: ReplicationFilter | undefined
  /** Changes in a batch, at most. */
  readonly batchSize: number
}

export interface SourcePeer extends Peer {
  /**
   * The changes since a sequence, in batches, to the end of the feed; a continuous one has no end. The last batch may be
   * empty and only say where the feed ended. A broken feed is resumed.
   */
  changes(options: FeedOptions): AsyncIterable<ChangeBatch>
  /** The source text of a filter function. Throws a `RequestError` where there is none. */
  filterSource(filter: Extract<ReplicationFilter, { kind: 'function' }>): Promise<string>
  /**
   * Opens revisions. Missing ones are left out. Documents of one batch must be used and released before the next batch
   * is requested. If attachments have to be fetched separately, the wanted document is returned instead.
   */
  read(wanted: readonly WantedDocument[]): AsyncIterable<readonly (TransferredDocument | WantedDocument)[]>
  /** The revisions of one document with their attachments, each to be used before the next one is asked for. */
  stream(wanted: WantedDocument): AsyncIterable<TransferredDocument>
}

/** Receives the outcome of the documents that a writer was given. */
export interface WriteListener {
  written(documents: number): void
  /** A document is refused for good. */
  failed(document: TransferredDocument, error: string): void
  /** The target does not have the attachment of a stub. */
  stubMissing(document: TransferredDocument): void
}

/** Writes the documents of one batch. */
export interface DocumentWriter {
  /**
   * Takes a document; at once, or else a promise. Contents of its attachments that can be read once have been read when
   * that resolves.
   */
  add(document: TransferredDocument): Promise<void> | undefined
  /**
   * Resolves when all documents are on disk or refused. `onFlushing` is called, by a target that knows, when the disk is
   * all that is waited for.
   */
  finish(onFlushing?: () => void): Promise<void>
  /** Releases documents that were added and not written. */
  abandon(): void
}

export interface TargetPeer extends Peer {
  /** Which of the revisions are not there. */
  missing(changes: readonly ChangedDocument[]): Promise<WantedDocument[]>
  writer(listener: WriteListener): DocumentWriter
}
