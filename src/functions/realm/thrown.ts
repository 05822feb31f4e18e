/** What a thrown value means, by the kind of function that threw it: errors for the client. */

import type { Failures } from './failure.ts'
import { MARKS, type Outcome } from './interface.ts'

export interface ThrownValues {
  /** Of map and reduce functions: undefined if the run continues. */
  fatal(thrown: unknown): Outcome | undefined
  /** Of filters. */
  plain(thrown: unknown): Outcome
  /** Of shows, updates and lists. */
  rendering(thrown: unknown): Outcome
  /** Of validation: what the write is refused with, as JSON. */
  verdict(thrown: unknown): string
  error(id: string, reason: unknown): Outcome
}

export function realmThrownValues({ isFailure, describe }: Failures): ThrownValues {
  const { stringify } = JSON
  const { keys: namesOf, hasOwn } = Object
  const { isArray } = Array
  const text = String

  const error = (id: unknown, reason: unknown, isFatal = false): Outcome => [
    MARKS.error,
    stringify({ id: text(id), reason: reason === undefined ? null : reason, isFatal }),
  ]

  const isPlainObject = (thrown: unknown): thrown is Record<string, unknown> =>
    typeof thrown === 'object' && thrown !== null && !isArray(thrown) && !(thrown instanceof Error)

  /** `[kind, identifier, reason]`. What is thrown may be anything, also something that throws when it is looked at. */
  const isList = (thrown: unknown, kind: 'error' | 'fatal'): thrown is [string, unknown, unknown] => {
    try {
      return isArray(thrown) && thrown.length === 3 && thrown[0] === kind
    } catch {
      return false
    }
  }

  /** What a function throws on purpose: an identifier and a reason for the client. */
  const intended = (thrown: unknown): Outcome | undefined => {
    if (isFailure(thrown)) return error(thrown.id, thrown.reason)
    if (isList(thrown, 'error')) return error(thrown[1], thrown[2])
    if (isList(thrown, 'fatal')) return error(thrown[1], thrown[2], true)
    if (isPlainObject(thrown) && hasOwn(thrown, 'error')) return error(thrown.error, thrown.reason)
    return undefined
  }

  /** The value itself where it says one thing only. */
  const refusal = (thrown: unknown): { readonly id: string; readonly reason: unknown } => {
    if (isFailure(thrown)) return { id: thrown.id, reason: thrown.reason }
    if (thrown instanceof Error) return { id: text(thrown.name), reason: text(thrown.message) }
    if (typeof thrown === 'string') return { id: 'unknown_error', reason: thrown }
    const names = isPlainObject(thrown) ? namesOf(thrown) : []
    const name = names[0]
    if (!isPlainObject(thrown) || names.length !== 1 || name === undefined) {
      return { id: 'unknown_error', reason: stringify(thrown) ?? text(thrown) }
    }
    const id = name === 'forbidden' || name === 'unauthorized' ? name : 'unknown_error'
    return { id, reason: thrown[name] ?? null }
  }

  /** Where an error was thrown, in user code alone: frames of the realm itself are of no use to anybody. */
  const stackOf = (thrown: unknown): string => {
    try {
      const stack: unknown = thrown instanceof Error ? thrown.stack : undefined
      if (typeof stack !== 'string') return ''
      return stack
        .split('\n')
        .filter((line) => !/<isolated-vm>:\d+:\d+\)?$/.test(line))
        .map((line) => line.replace(/eval at \w+ \(<isolated-vm>:\d+:\d+\), /, ''))
        .join('\n')
    } catch {
      return ''
    }
  }

  return {
    fatal(thrown) {
      if (thrown === 'fatal_error') return error('map_runtime_error', "function raised 'fatal_error'")
      return isList(thrown, 'fatal') ? error(thrown[1], thrown[2], true) : undefined
    },
    plain(thrown) {
      const known = intended(thrown)
      if (known !== undefined) return known
      return thrown instanceof Error
        ? error(thrown.name, text(thrown.message))
        : error('unnamed_error', describe(thrown))
    },
    rendering(thrown) {
      const known = intended(thrown)
      if (known !== undefined) return known
      return error('render_error', `function raised error: ${describe(thrown)} \nstacktrace: ${stackOf(thrown)}`)
    },
    verdict: (thrown) => stringify(refusal(thrown)),
    error,
  }
}
