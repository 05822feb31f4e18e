/** Updates each index where its engine has that done: some in other processes, some in this one. */
import type { ViewDesign } from '../design/view-design.ts'
import type { IndexPlace, IndexRunner, IndexWork } from './index-runner.ts'
import type { IndexBehind, UpdateProgress } from './update-request.ts'

export class RoutedRunner implements IndexRunner {
  readonly #own: IndexRunner
  readonly #otherOf: (index: IndexPlace) => IndexRunner | undefined

  /** `otherOf` is undefined for the indexes of the server's own engine. */
  constructor(own: IndexRunner, otherOf: (index: IndexPlace) => IndexRunner | undefined) {
    this.#own = own
    this.#otherOf = otherOf
  }

  update(
    index: IndexPlace,
    signal: AbortSignal,
    onProgress: (progress: UpdateProgress) => void,
    behind?: IndexBehind,
  ): Promise<void> {
    return this.#runnerOf(index).update(index, signal, onProgress, behind)
  }

  compact(index: IndexPlace, signal: AbortSignal, onProgress: (done: number) => void): Promise<void> {
    return this.#runnerOf(index).compact(index, signal, onProgress)
  }

  async workElsewhere(index: IndexPlace): Promise<IndexWork | undefined> {
    return this.#runnerOf(index).workElsewhere?.(index)
  }

  /** The others run in this process, and need no time to begin. */
  prepare(design: ViewDesign): void {
    this.#own.prepare(design)
  }

  settingsChanged(): void {
    this.#own.settingsChanged()
  }

  async close(): Promise<void> {
    await this.#own.close()
  }

  #runnerOf(index: IndexPlace): IndexRunner {
    return this.#otherOf(index) ?? this.#own
  }
}
