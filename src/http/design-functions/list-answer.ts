/**
 * What a list function makes of rows, as a reply that goes out while it is made: rows are read as the client takes what
 * becomes of them. The head waits for the first text, since until then the function may still choose another one.
 */
import { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { FunctionResponse, ListOutput, ListRun } from '../../functions/functions.ts'
import { type Answer, type Headers, streamed } from '../server/answer.ts'
import { responseHead } from './function-response.ts'

export interface ListedRows {
  readonly run: ListRun
  /** JSON texts, a block at a time. */
  readonly rows: AsyncIterable<readonly string[]>
  /** Headers that the function cannot change. */
  readonly fixed: Headers
  /** Aborts when nobody is there any more to take the reply. */
  readonly signal: AbortSignal
  /** Lets go of the rows. */
  release(): void
}

/** Takes `run` and `rows` over: they are let go of in every case. */
export async function listAnswer(listed: ListedRows): Promise<Answer> {
  const { run, rows, fixed } = listed
  const release = () => {
    run.abandon()
    listed.release()
  }
  try {
    const outputs = outputsOf(run, rows)
    const { text, response, error } = await beginning(outputs)
    const { status, headers } = responseHead(response, { fixed })
    if (error) return streamed(once(errorText(error)), { status: error.status, headers, release })
    return streamed(texts(text, outputs, listed.signal), { status, headers, release })
  } catch (error) {
    release()
    throw error
  }
}

async function* outputsOf(run: ListRun, rows: AsyncIterable<readonly string[]>): AsyncGenerator<ListOutput> {
  if (yield* taken(run, run.begun)) return
  for await (const block of rows) {
    // Where it wants no more, nothing more is read.
    if (yield* taken(run, await run.rows(block))) return
  }
  yield* taken(run, await run.end())
}

/** An output, and those after it for which the function only waited until it was taken. Returns whether it ended. */
async function* taken(run: ListRun, first: ListOutput): AsyncGenerator<ListOutput, boolean> {
  let output = first
  yield output
  while (output.isPaused && !output.ended) {
    output = await run.rows([])
    yield output
  }
  return output.ended
}

interface Beginning {
  /** The first text, empty when there is none at all. */
  readonly text: string
  readonly response: FunctionResponse
  /** What the function failed with before it gave any text. */
  readonly error?: RequestError
}

async function beginning(outputs: AsyncGenerator<ListOutput>): Promise<Beginning> {
  let response: FunctionResponse = {}
  try {
    for (let step = await outputs.next(); !step.done; step = await outputs.next()) {
      response = step.value.response ?? response
      const text = step.value.chunks.join('')
      if (text !== '') return { text, response }
    }
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    return { text: '', response, error }
  }
  return { text: '', response }
}

async function* texts(
  first: string,
  outputs: AsyncGenerator<ListOutput>,
  signal: AbortSignal,
): AsyncGenerator<string | Buffer> {
  // As bytes: a text would go out in one piece with the head, in one encoding, and that of the head is another one.
  if (first !== '') yield Buffer.from(first)
  try {
    for await (const { chunks } of outputs) {
      const text = chunks.join('')
      if (text !== '') yield text
    }
  } catch (error) {
    if (signal.aborted) return
    if (!(error instanceof RequestError)) throw error
    yield errorText(error)
  }
}

/** The status is out: what went wrong is told at the end of the text. */
function errorText({ status, error, told }: RequestError): string {
  if (isObject(told) && typeof told.body === 'string' && Object.keys(told).length === 1) return told.body
  return `\n${JSON.stringify({ code: status, error, reason: told })}\n`
}

async function* once(text: string): AsyncGenerator<string> {
  yield text
}
