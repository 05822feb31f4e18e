/**
 * Batches inside the isolate, done in slices of time: between two inputs a long batch comes out for a moment, so that the
 * process can show that it goes on. See `failure.ts` for how this gets there.
 */
import type { RealmMarks } from './calls.ts'

export interface Slices {
  /**
   * Does one input after the other; `one` gives its part of the output, or what the whole call fails with. Answers all that
   * there is until the slice is over.
   */
  run(count: number, one: (index: number) => string): string
  /** The next slice of the call that was interrupted. */
  more(): string
}

export function realmSlices(sliceMs: number, { done, more, error }: RealmMarks): Slices {
  const { now } = Date
  let rest: (() => string) | undefined

  return {
    run(count, one) {
      let index = 0
      const slice = (): string => {
        rest = undefined
        const until = now() + sliceMs
        let output = ''
        while (index < count) {
          const part = one(index++)
          if (part[0] === error) return part
          output += part
          if (now() < until || index === count) continue
          rest = slice
          return more + output
        }
        return done + output
      }
      return slice()
    },
    more: () => rest?.() ?? done,
  }
}
