/** The reduce limit: results of reduce functions must be shorter than their input. */
import { RequestError } from '../../document/request-error.ts'

const SHORTEST_OVERFLOW = 200
const SHOWN_CHARACTERS = 100

/** The length of the input is that of the command which would carry it, in characters. */
export function checkShrinking(result: string, inputLength: number): void {
  const output = `[${result}]`
  if (output.length <= SHORTEST_OVERFLOW || 2 * output.length <= inputLength) return
  const shown = `'${output.slice(0, SHOWN_CHARACTERS)}'... (first ${SHOWN_CHARACTERS} of ${output.length} bytes)`
  throw new RequestError(
    'failed',
    'reduce_overflow_error',
    `Reduce output must shrink more rapidly: Current output: ${shown}`,
  )
}
