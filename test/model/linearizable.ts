/**
 * Whether what several clients saw of one thing can have happened one after the other, in an order that agrees with the
 * clock: an operation that ended before another one began comes before it. The search is that of Wing and Gong, with the
 * states that failed already remembered.
 */

export interface Operation<State> {
  /** Ordinal of the client; its operations follow each other. */
  readonly client: number
  readonly startedAt: number
  readonly endedAt: number
  /** What is said of it where the history is wrong. */
  readonly told: string
  /** The state after it; undefined where the client cannot have seen that in this state. */
  apply(state: State): State | undefined
}

/** The last state of such an order; undefined where there is none. `keyOf` is the same for equal states only. */
export function linearize<State>(
  operations: readonly Operation<State>[],
  initial: State,
  keyOf: (state: State) => string,
  isLast: (state: State) => boolean = () => true,
): State | undefined {
  const lanes = new Map<number, Operation<State>[]>()
  for (const operation of operations) {
    const lane = lanes.get(operation.client) ?? []
    lane.push(operation)
    lanes.set(operation.client, lane)
  }
  const clients = [...lanes.values()].map((lane) => lane.sort((a, b) => a.startedAt - b.startedAt))
  const failed = new Set<string>()

  const search = (done: readonly number[], state: State): State | undefined => {
    const next = clients.flatMap((lane, i) => lane[done[i]!] ?? [])
    if (next.length === 0) return isLast(state) ? state : undefined
    const key = `${done.join()} ${keyOf(state)}`
    if (failed.has(key)) return undefined
    const firstEnd = Math.min(...next.map(({ endedAt }) => endedAt))
    for (const [i, lane] of clients.entries()) {
      const operation = lane[done[i]!]
      if (!operation || operation.startedAt > firstEnd) continue
      const after = operation.apply(state)
      if (after === undefined) continue
      const last = search(done.with(i, done[i]! + 1), after)
      if (last !== undefined) return last
    }
    failed.add(key)
    return undefined
  }
  return search(
    clients.map(() => 0),
    initial,
  )
}
