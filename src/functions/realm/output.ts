/** The output of shows and lists while they run: `start`, `send` and `getRow`. */

import type { Failures } from './failure.ts'
import { LIMITS, type RealmHost } from './interface.ts'

export interface Response {
  [member: string]: unknown
}

export interface Output {
  readonly start: (response?: unknown) => void
  readonly send: (chunk: unknown) => void
  readonly getRow: () => unknown
  /** Forgets all; from here on what is said counts. */
  begin(kind: 'show' | 'list'): void
  /** From here on nothing counts. */
  end(): void
  /** What was sent since the last time. */
  take(): string
  /** Whether anything was sent, be it empty. */
  readonly hasSent: boolean
  /** What `start` was given last. */
  readonly head: Response | undefined
  /** The reply is of this type unless its head says otherwise. */
  useType(type: string): void
  /** The last output of a list, with what the function returned. */
  last(tail: unknown): string
  /** Hands over what a list sent before it asked for its last row: that counts, although the function failed since. */
  flush(): void
}

export function realmOutput(host: RealmHost, { failure }: Failures): Output {
  const { sentCharacters, shownCharacters } = LIMITS
  const { parse, stringify } = JSON
  const { keys: namesOf } = Object
  const text = String

  let kind: 'none' | 'show' | 'list' = 'none'
  let chunks = ''
  /** How much of it there was when a row was asked for last. */
  let charactersAsked = 0
  let hasSent = false
  let head: Response | undefined
  let isHeadNew = false
  /** The first text has gone out: what the reply begins with is settled. */
  let isHeadSettled = false
  let type: string | undefined
  let rows: unknown[] = []
  let rowAt = 0
  let isAtEnd = false

  const take = (): string => {
    const taken = chunks
    chunks = ''
    return taken
  }

  const typedHead = (): Response | undefined => {
    if (type === undefined) return head
    const headers = (head?.headers ?? {}) as Response
    if (namesOf(headers).some((name) => name.toLowerCase() === 'content-type')) return head
    return { ...head, headers: { 'Content-Type': type, ...headers } }
  }

  const output = (state: { readonly isPaused: boolean; readonly ended: boolean }): string => {
    const response = isHeadNew ? typedHead() : undefined
    isHeadNew = false
    isHeadSettled ||= chunks !== ''
    charactersAsked = 0
    return stringify({ chunks: take(), response, ...state })
  }

  const receive = (page: string | undefined): void => {
    if (page === undefined) {
      isAtEnd = true
      return
    }
    const more: unknown[] = parse(page)
    rows = rowAt < rows.length ? [...rows.slice(rowAt), ...more] : more
    rowAt = 0
  }

  return {
    start(response) {
      if (kind === 'none' || isHeadSettled) return
      head = typeof response === 'object' && response !== null ? (response as Response) : {}
      isHeadNew = true
    },
    send(chunk) {
      const piece = text((chunk as object).toString())
      if (kind === 'none') return
      chunks += piece
      hasSent = true
      if (chunks.length <= (kind === 'show' ? shownCharacters : sentCharacters)) return
      if (kind === 'show') throw failure('render_error', 'A function sent too much.')
      receive(host.exchange(output({ isPaused: true, ended: false })))
    },
    getRow() {
      if (kind !== 'list') return null
      while (rowAt >= rows.length && !isAtEnd) receive(host.exchange(output({ isPaused: false, ended: false })))
      // What was sent before this row goes out before anything that is said after it.
      isHeadSettled ||= chunks !== ''
      charactersAsked = chunks.length
      if (rowAt >= rows.length) return null
      const row = rows[rowAt]
      rows[rowAt++] = undefined
      return row
    },
    begin(given) {
      kind = given
      chunks = ''
      charactersAsked = 0
      hasSent = false
      head = undefined
      isHeadNew = false
      isHeadSettled = false
      type = undefined
      rows = []
      rowAt = 0
      isAtEnd = false
    },
    end() {
      kind = 'none'
      rows = []
    },
    take,
    get hasSent() {
      return hasSent
    },
    get head() {
      return head
    },
    useType(given) {
      type = given
      isHeadNew ||= !isHeadSettled
    },
    last(tail) {
      if (tail !== undefined) chunks += text(tail)
      return output({ isPaused: false, ended: true })
    },
    flush() {
      chunks = chunks.slice(0, charactersAsked)
      if (chunks !== '') host.exchange(output({ isPaused: true, ended: false }))
    },
  }
}
