/**
 * Transfers the changes of one batch: asks the target which revisions are missing, reads them from the source, writes
 * them. Resolves when everything is on disk at the target or refused by it.
 */
import { Refusals } from '../client/refusals.ts'
import { DamagedContentError, RefusedWriteError, type RetryPolicy, retried, TransientError } from '../client/retries.ts'
import type {
  ChangedDocument,
  DocumentWriter,
  SourcePeer,
  TargetPeer,
  WantedDocument,
  WriteListener,
} from '../peers/peer.ts'
import type { TransferredDocument } from '../peers/transferred-document.ts'
import type { SessionStatistics } from './replication-log.ts'

export interface TransferContext {
  readonly source: SourcePeer
  readonly target: TargetPeer
  readonly statistics: SessionStatistics
  readonly retries: RetryPolicy
  readonly signal: AbortSignal
  /** Called when figures changed. */
  onProgress(): void
  /** Called with each document that the target refuses. */
  onRefused(document: TransferredDocument, error: string): void
}

/** `onFlushing` is called when the batch waits for the disk of the target alone; it may be called several times or not at all. */
export async function transferBatch(
  changes: readonly ChangedDocument[],
  context: TransferContext,
  onFlushing?: () => void,
): Promise<void> {
  const { target, statistics } = context
  const named = distinct(changes)
  if (named.length === 0) return
  const wanted = await target.missing(named)
  for (const { revisions } of named) statistics.missingChecked += revisions.length
  for (const { revisions } of wanted) statistics.missingFound += revisions.length
  context.onProgress()
  if (wanted.length > 0) await new BatchTransfer(context).run(wanted, onFlushing)
}

/** Each document once, and each of its revisions. Documents without an id cannot be asked for. */
function distinct(changes: readonly ChangedDocument[]): ChangedDocument[] {
  const documents = new Map<string, ChangedDocument>()
  for (const change of changes) {
    const { id, revisions } = change
    if (id === '') continue
    const known = documents.get(id)
    const isPlain = !known && revisions.length === 1
    documents.set(id, isPlain ? change : { id, revisions: [...new Set([...(known?.revisions ?? []), ...revisions])] })
  }
  return [...documents.values()]
}

/** Documents with large attachments that are fetched at the same time. */
const STREAMS = 4

class BatchTransfer {
  readonly #context: TransferContext
  /** Documents whose stubs the target could not resolve: they are fetched again with all contents. */
  readonly #incomplete = new Map<string, Set<string>>()

  constructor(context: TransferContext) {
    this.#context = context
  }

  async run(wanted: readonly WantedDocument[], onFlushing: (() => void) | undefined): Promise<void> {
    const { source, target } = this.#context
    const streamed: WantedDocument[] = []
    const writer = target.writer(this.#listener())
    try {
      for await (const some of source.read(wanted)) {
        this.#checkSignal(some)
        for (const each of some) {
          if ('known' in each) streamed.push(each)
          else if (each.isRepeatable) {
            const taking = this.#take(each, writer)
            // Most documents are accepted synchronously: awaiting each would cost as much as the rest.
            if (taking && !(await this.#isWhole(taking))) streamed.push(again(each, wanted))
          } else if (!(await this.#isTaken(each, writer))) streamed.push(again(each, wanted))
        }
      }
      await writer.finish(streamed.length === 0 ? onFlushing : undefined)
    } catch (error) {
      writer.abandon()
      throw error
    }
    await this.#streamAll(streamed)
    const incomplete = [...this.#incomplete].map(([id, revisions]) => ({ id, revisions: [...revisions], known: [] }))
    this.#incomplete.clear()
    await this.#streamAll(incomplete)
  }

  async #streamAll(wanted: readonly WantedDocument[]): Promise<void> {
    const queue = wanted.values()
    const work = async () => {
      for (const each of queue) await this.#stream(each)
    }
    await Promise.all(Array.from({ length: Math.min(STREAMS, wanted.length) }, work))
  }

  /** Streams can be read once: if a peer fails in the middle, the document is read again. */
  async #stream(wanted: WantedDocument): Promise<void> {
    const { retries, signal } = this.#context
    const listener = this.#listener(wanted)
    const refusals = new Refusals(retries)
    let last: TransferredDocument | undefined
    try {
      await retried(retries, signal, () =>
        refusals.counted(() =>
          this.#streamOnce(wanted, listener, (document) => {
            last = document
          }),
        ),
      )
    } catch (error) {
      const isRefused = error instanceof RefusedWriteError && refusals.areMeant
      if (!isRefused && !(error instanceof DamagedContentError)) throw error
      if (wanted.revisions.length > 1) return await this.#streamOneByOne(wanted)
      if (!last) throw error
      listener.failed(last, error.message)
    }
  }

  /** One failing revision does not hold back the others. */
  async #streamOneByOne(wanted: WantedDocument): Promise<void> {
    for (const revision of wanted.revisions) await this.#stream({ ...wanted, revisions: [revision] })
  }

  async #streamOnce(
    wanted: WantedDocument,
    listener: WriteListener,
    onRead: (document: TransferredDocument) => void,
  ): Promise<void> {
    const { source, target, statistics } = this.#context
    const writer = target.writer(listener)
    let read = 0
    try {
      for await (const document of source.stream(wanted)) {
        this.#checkSignal([document])
        read++
        onRead(document)
        await this.#take(document, writer)
      }
      await writer.finish()
    } catch (error) {
      writer.abandon()
      // They are read again, and counted then.
      statistics.docsRead -= read
      throw error
    }
  }

  /** False if a stream failed: the document must be read again. */
  async #isTaken(document: TransferredDocument, writer: DocumentWriter): Promise<boolean> {
    try {
      await this.#take(document, writer)
      return true
    } catch (error) {
      if (!(error instanceof TransientError)) throw error
      this.#context.signal.throwIfAborted()
      this.#context.statistics.docsRead--
      return false
    }
  }

  /** False where a content inline is not what was announced: the document is to be read again, its contents as parts. */
  async #isWhole(taking: Promise<void>): Promise<boolean> {
    try {
      await taking
      return true
    } catch (error) {
      if (!(error instanceof DamagedContentError)) throw error
      this.#context.statistics.docsRead--
      return false
    }
  }

  /** Documents that were read in vain are released. */
  #checkSignal(read: readonly (TransferredDocument | WantedDocument)[]): void {
    const { signal } = this.#context
    if (!signal.aborted) return
    for (const each of read) if (!('known' in each)) each.release()
    signal.throwIfAborted()
  }

  #take(document: TransferredDocument, writer: DocumentWriter): Promise<void> | undefined {
    const { statistics } = this.#context
    statistics.docsRead++
    // Otherwise its protection from compaction would never end.
    return writer.add(document)?.catch((error: unknown) => {
      document.release()
      throw error
    })
  }

  #listener(streamed?: WantedDocument): WriteListener {
    const { statistics } = this.#context
    return {
      written: (documents) => {
        statistics.docsWritten += documents
        this.#context.onProgress()
      },
      failed: (document, error) => {
        statistics.docWriteFailures++
        this.#context.onRefused(document, error)
        this.#context.onProgress()
      },
      stubMissing: (document) => {
        // With all contents there is no stub left to resolve, unless the source has none itself.
        if (streamed?.known.length === 0) {
          statistics.docWriteFailures++
          this.#context.onRefused(document, 'missing_stub')
          return
        }
        const revisions = this.#incomplete.get(document.id) ?? new Set()
        this.#incomplete.set(document.id, revisions.add(document.revision))
        // It is read again, and counted then.
        statistics.docsRead--
      },
    }
  }
}

function again({ id, revision }: TransferredDocument, wanted: readonly WantedDocument[]): WantedDocument {
  return { id, revisions: [revision], known: wanted.find((each) => each.id === id)?.known ?? [] }
}
