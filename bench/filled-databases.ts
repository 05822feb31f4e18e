/** The flags of the benchmarks that fill a database on each server and ask both in turns. */
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    documents: { type: 'string', default: '100000' },
    seconds: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    alone: { type: 'boolean', default: false },
  },
})

export const DOCUMENTS = Number(values.documents)
export const ROUND_MS = Number(values.seconds) * 1000
export const ROUNDS = Number(values.rounds)
export const DOCUMENT_BYTES = 360
export const FIRST_NUMBER = 1_000_000_000

/** Without the peer. */
export const IS_ALONE = values.alone

/** What the benchmark does, beside its results. */
export function tell(text: string): void {
  process.stderr.write(`${text}\n`)
}
