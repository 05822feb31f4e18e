/**
 * Runs batches in slices of time. Between two inputs a long batch leaves the isolate for a moment, so that the process can
 * report progress.
 */
import { LIMITS, MARKS, type Outcome } from './interface.ts'

export interface Batch {
  readonly count: number
  /** Does one input; gives what the whole call fails with, if it does. */
  one(index: number): Outcome | undefined
  /** What the inputs since the last time came to. */
  take(): string
}

export interface Slices {
  /** Does one input after the other, and answers all that there is when the slice is over. */
  run(batch: Batch): Outcome
  /** The same where each input comes to a text of its own, or to what all fails with. */
  gather(count: number, one: (index: number) => string | Outcome): Outcome
  /** The next slice of the call that was interrupted. */
  more(): Outcome
}

export function realmSlices(): Slices {
  const { sliceMs } = LIMITS
  const { done, more } = MARKS
  const { now } = Date
  let rest: (() => Outcome) | undefined

  const run = (batch: Batch): Outcome => {
    const { count } = batch
    let index = 0
    const slice = (): Outcome => {
      rest = undefined
      const until = now() + sliceMs
      while (index < count) {
        const failure = batch.one(index++)
        if (failure) return failure
        if (now() < until || index === count) continue
        rest = slice
        return [more, batch.take()]
      }
      return [done, batch.take()]
    }
    return slice()
  }

  return {
    run,
    gather(count, one) {
      let texts = ''
      return run({
        count,
        one(index) {
          const part = one(index)
          if (typeof part !== 'string') return part
          texts += part
          return undefined
        },
        take() {
          const taken = texts
          texts = ''
          return taken
        },
      })
    },
    more: () => rest?.() ?? [done, ''],
  }
}
