/**
 * An immutable sorted list of rows: a change gives a new list that shares all it did not touch. The rows are kept in
 * runs of bounded length, so that a change copies one run and the list of runs, not every row.
 */

export interface Row {
  readonly key: Uint8Array
  readonly value: Uint8Array
}

type Run = readonly Row[]

const RUN_ROWS = 256

export class RowList {
  static readonly empty = new RowList([])
  readonly #runs: readonly Run[]

  private constructor(runs: readonly Run[]) {
    this.#runs = runs
  }

  get(key: Uint8Array): Uint8Array | undefined {
    const run = this.#runs[this.#runOf(key)]
    if (!run) return undefined
    const row = run[lowerBound(run, key)]
    return row && Buffer.compare(row.key, key) === 0 ? row.value : undefined
  }

  /** Rows from `from` on, ascending. */
  *ascending(from: Uint8Array): Generator<Row> {
    let at = this.#runOf(from)
    let first = lowerBound(this.#runs[at] ?? [], from)
    for (; at < this.#runs.length; at++, first = 0) {
      const run = this.#runs[at]!
      for (let i = first; i < run.length; i++) yield run[i]!
    }
  }

  /** Rows below `before`, or all when it is undefined, descending. */
  *descending(before: Uint8Array | undefined): Generator<Row> {
    let at = before === undefined ? this.#runs.length - 1 : this.#runOf(before)
    let end = before === undefined ? undefined : lowerBound(this.#runs[at] ?? [], before)
    for (; at >= 0; at--, end = undefined) {
      const run = this.#runs[at]
      if (!run) continue
      for (let i = (end ?? run.length) - 1; i >= 0; i--) yield run[i]!
    }
  }

  put(key: Uint8Array, value: Uint8Array): RowList {
    const row = { key, value }
    if (this.#runs.length === 0) return new RowList([[row]])
    const at = this.#runOf(key)
    const run = this.#runs[at]!
    const position = lowerBound(run, key)
    const found = position < run.length && Buffer.compare(run[position]!.key, key) === 0
    const changed = run.toSpliced(position, found ? 1 : 0, row)
    return this.#withRun(
      at,
      changed.length > RUN_ROWS ? [changed.slice(0, RUN_ROWS / 2), changed.slice(RUN_ROWS / 2)] : [changed],
    )
  }

  delete(key: Uint8Array): RowList {
    const at = this.#runOf(key)
    const run = this.#runs[at]
    if (!run) return this
    const position = lowerBound(run, key)
    if (position === run.length || Buffer.compare(run[position]!.key, key) !== 0) return this
    const changed = run.toSpliced(position, 1)
    return this.#withRun(at, changed.length > 0 ? [changed] : [])
  }

  #withRun(at: number, replacement: Run[]): RowList {
    return new RowList(this.#runs.toSpliced(at, 1, ...replacement))
  }

  /** The last run that begins at or before the key; the first one when none does. */
  #runOf(key: Uint8Array): number {
    let low = 0
    let high = this.#runs.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (Buffer.compare(this.#runs[middle]![0]!.key, key) <= 0) low = middle + 1
      else high = middle
    }
    return Math.max(0, low - 1)
  }
}

/** The position of the first row whose key is not below the one given. */
function lowerBound(run: Run, key: Uint8Array): number {
  let low = 0
  let high = run.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (Buffer.compare(run[middle]!.key, key) < 0) low = middle + 1
    else high = middle
  }
  return low
}
