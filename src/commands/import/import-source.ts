/**
 * A database of another server as the source of an import. Nothing is written to it: checkpoints are stored in the
 * target alone. Its changes are read in two parts: documents first, design documents last, so that validation functions
 * do not apply to older documents.
 */
import type {
  ChangeBatch,
  FeedOptions,
  PeerInformation,
  SourcePeer,
  TargetPeer,
  WantedDocument,
} from '../../replication/peers/peer.ts'
import type { ReplicationFilter } from '../../replication/replication-request.ts'

export type ImportPart = 'documents' | 'design documents'

export interface ImportSourceOptions {
  readonly part: ImportPart
  /** Where the logs are. */
  readonly target: () => TargetPeer
  /** Ids that are not imported. */
  readonly excluded: ReadonlySet<string>
}

export class ImportSource implements SourcePeer {
  readonly #source: SourcePeer
  readonly #options: ImportSourceOptions

  constructor(source: SourcePeer, options: ImportSourceOptions) {
    this.#source = source
    this.#options = options
  }

  get shown(): string {
    return this.#source.shown
  }

  information(): Promise<PeerInformation> {
    return this.#source.information()
  }

  /** The same log on both sides: that of the target counts. */
  readLog(id: string) {
    return this.#options.target().readLog(id)
  }

  async writeLog(_id: string, _log: object, revision: string | undefined): Promise<string> {
    return revision ?? '0-1'
  }

  async flush(): Promise<string | undefined> {
    return undefined
  }

  async *changes(options: FeedOptions): AsyncGenerator<ChangeBatch> {
    for await (const { changes, lastSequence } of this.#source.changes(options)) {
      yield { changes: changes.filter(({ id }) => this.#isOfPart(id)), lastSequence }
    }
  }

  filterSource(filter: Extract<ReplicationFilter, { kind: 'function' }>): Promise<string> {
    return this.#source.filterSource(filter)
  }

  read(wanted: readonly WantedDocument[]) {
    return this.#source.read(wanted)
  }

  stream(wanted: WantedDocument) {
    return this.#source.stream(wanted)
  }

  #isOfPart(id: string): boolean {
    const { part, excluded } = this.#options
    return id.startsWith('_design/') === (part === 'design documents') && !excluded.has(id)
  }
}
