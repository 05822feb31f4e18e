/**
 * Collects the rows that map functions emit, as text. The text is a sequence of JSON arrays. Their elements are rows, each
 * an array of key and value, and a zero where a function is done with a document.
 *
 * Text is made of many rows at once where nothing that was emitted can change afterwards: that costs half of making it row
 * by row.
 */

import type { Failures } from './failure.ts'
import { LIMITS, type RealmHost } from './interface.ts'

export interface EmittedRows {
  readonly emit: (key?: unknown, value?: unknown) => void
  /** Whether anything is emitted while this runs. */
  emits(work: () => void): boolean
  /** A batch begins. `isSteady`: values do not change after they are emitted. */
  begin(isSteady: boolean): void
  /** From here on what is emitted counts. */
  open(): void
  /** A function is done with a document. */
  close(document: unknown): void
  /** It failed, and has given nothing; to be followed by `close`. */
  drop(error: unknown, document: unknown): void
  /** Everything since the last time. */
  take(): string
  /** Throws where what was emitted cannot be had, although the function did not let that stop it. */
  check(): void
  /** Whether a function emitted more than any may. */
  readonly hasOverflowed: boolean
}

type Row = readonly [key: unknown, value: unknown]

export function realmEmittedRows(host: RealmHost, { describe }: Failures): EmittedRows {
  const { emittedCharacters } = LIMITS
  const { stringify } = JSON
  /** Rows of which no text is made yet. */
  const mostPending = 500
  const endOfFunction = 0

  let emitCount = 0
  let isCounted = false
  let isSteady = false
  let hasOverflowed = false
  let problem: { readonly error: unknown } | undefined
  /** Of rows and ends: whole arrays, and the beginning of one where values are not steady. Only ever appended to. */
  let text = ''
  /** As it was when the function began. */
  let textBefore = ''
  let pending: (Row | typeof endOfFunction)[] = []
  let pendingBefore = 0
  /** Whether a part of what the function emitted is in the text already. */
  let isSplit = false
  /** The document of each function that is done among what is pending. */
  let documents: unknown[] = []

  const overflow = (): never => {
    hasOverflowed = true
    throw new RangeError('Too much was emitted for one document.')
  }

  const check = (): void => {
    if (hasOverflowed) overflow()
    if (problem) throw problem.error
  }

  const reportProblem = (error: unknown, document: unknown): void => {
    const id = (document as { readonly _id?: unknown })._id
    host.log(`function raised exception ${describe(error)} with doc._id ${id}`)
  }

  /** Function by function: which of them gave what has no text? */
  const textOfEach = (): string => {
    let result = ''
    let rows: unknown[] = []
    let functions = 0
    for (const each of pending) {
      if (each !== endOfFunction) {
        rows[rows.length] = each
        continue
      }
      const document = documents[functions++]
      try {
        result += stringify([...rows, endOfFunction])
      } catch (error) {
        reportProblem(error, document)
        result += `[${endOfFunction}]`
      }
      rows = []
    }
    return result
  }

  const flush = (): void => {
    if (pending.length === 0) return
    try {
      text += stringify(pending)
    } catch {
      text += textOfEach()
    }
    pending = []
    documents = []
  }

  /** In the middle of a function: what was before it must be there again when it fails. */
  const flushOwn = (): void => {
    const own = pending.slice(pendingBefore)
    pending.length = pendingBefore
    flush()
    if (pendingBefore > 0) textBefore = text
    pendingBefore = 0
    isSplit = true
    try {
      text += stringify(own)
    } catch (error) {
      problem = { error }
      throw error
    }
    if (text.length - textBefore.length > emittedCharacters) overflow()
  }

  /** The rest of such a function: where it has no text, neither has what was before. */
  const endSplit = (document: unknown): void => {
    try {
      text += stringify(pending)
    } catch (error) {
      text = `${textBefore}[${endOfFunction}]`
      reportProblem(error, document)
    }
    pending = []
  }

  const emit = (key?: unknown, value?: unknown): void => {
    emitCount++
    if (!isCounted) return
    if (isSteady) {
      pending[pending.length] = [key, value]
      if (pending.length - pendingBefore > mostPending) flushOwn()
      return
    }
    if (text.length - textBefore.length > emittedCharacters) overflow()
    text += `${stringify([key, value])},`
  }

  return {
    emit,
    emits(work) {
      const before = emitCount
      isCounted = false
      work()
      return emitCount > before
    },
    begin(given) {
      isSteady = given
      hasOverflowed = false
      problem = undefined
      text = isSteady ? '' : '['
      pending = []
      documents = []
    },
    open() {
      isCounted = true
      problem = undefined
      isSplit = false
      textBefore = text
      pendingBefore = pending.length
    },
    close(document) {
      isCounted = false
      if (!isSteady) {
        text += `${endOfFunction},`
        return
      }
      // Each array is that of whole functions, or of the beginning of one.
      pending[pending.length] = endOfFunction
      if (isSplit) endSplit(document)
      else documents[documents.length] = document
      if (pending.length > mostPending) flush()
      if (text.length - textBefore.length > emittedCharacters) hasOverflowed = true
    },
    drop(error, document) {
      isCounted = false
      text = textBefore
      pending.length = pendingBefore
      reportProblem(error, document)
    },
    check,
    take() {
      flush()
      const taken = isSteady ? text : `${text}]`
      text = isSteady ? '' : '['
      return taken
    },
    get hasOverflowed() {
      return hasOverflowed
    },
  }
}
