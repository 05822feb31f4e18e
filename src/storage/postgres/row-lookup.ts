/**
 * Rows by their keys, of any stores, with the states of stores: one statement for all that were asked for together. Where the
 * values are too many bytes, the rest is read with further statements.
 */
import type { Connection, ResultRow } from './connection.ts'
import { STATEMENTS } from './statements.ts'
import { byteaArray, bytesOf, int8Array, numbersOf } from './wire-values.ts'

/** A store as a statement sees it. */
export interface StoreState {
  readonly version: number
  readonly space: number
}

export interface PendingKey {
  readonly space: number
  readonly key: Uint8Array
  readonly answer: (value: Buffer | undefined) => void
}

export interface PendingState {
  readonly store: number
  readonly answer: (state: StoreState | undefined) => void
}

/** Keys of one statement, and bytes of values after which the rest is read with another one. */
export const KEYS_A_STATEMENT = 500
const BYTES_A_STATEMENT = 4 * 1024 * 1024

/** Within a transaction: all statements see the same state. */
export async function lookUp(
  connection: Connection,
  keys: readonly PendingKey[],
  states: readonly PendingState[],
): Promise<void> {
  let left: PendingKey[] = []
  let next = 0
  let asked = states
  do {
    const some = left.concat(keys.slice(next, next + KEYS_A_STATEMENT - left.length))
    next += some.length - left.length
    left = await lookUpSome(connection, some, asked)
    asked = []
  } while (left.length > 0 || next < keys.length)
}

/** One statement. Returns the keys whose values were left out, since too many bytes came before them. */
export async function lookUpSome(
  connection: Connection,
  keys: readonly PendingKey[],
  states: readonly PendingState[],
): Promise<PendingKey[]> {
  const [row] = await connection.run(STATEMENTS.read, [
    int8Array(keys.map(({ space }) => space)),
    byteaArray(keys.map(({ key }) => key)),
    int8Array(states.map(({ store }) => store)),
    BYTES_A_STATEMENT,
  ])
  if (states.length > 0) answerStates(states, row?.[3] ?? null)
  return answerKeys(keys, row)
}

function answerStates(asked: readonly PendingState[], text: string | null): void {
  const numbers = numbersOf(text)
  const states = new Map<number, StoreState>()
  for (let i = 0; i < numbers.length; i += 3) {
    states.set(numbers[i]!, { version: numbers[i + 1]!, space: numbers[i + 2]! })
  }
  for (const { store, answer } of asked) answer(states.get(store))
}

function answerKeys(keys: readonly PendingKey[], row: ResultRow | undefined): PendingKey[] {
  const [places = null, sizes = null, bytes = null] = row ?? []
  const sizeOf = numbersOf(sizes)
  const left: PendingKey[] = []
  const found = new Set<number>()
  let at = 0
  for (const [i, place] of numbersOf(places).entries()) {
    const key = keys[place - 1]!
    const size = sizeOf[i]!
    found.add(place - 1)
    if (at >= BYTES_A_STATEMENT) {
      left.push(key)
      continue
    }
    key.answer(bytesOf(bytes ?? '\\x', at, at + size))
    at += size
  }
  for (const [i, { answer }] of keys.entries()) if (!found.has(i)) answer(undefined)
  return left
}
