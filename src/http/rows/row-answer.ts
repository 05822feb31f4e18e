/** Rows as a reply: those of one query with their tag, or those of several queries one after the other. */
import { badRequest } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { RowQuery } from '../../views/query/row-query.ts'
import { type Answer, notModified, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'

/** Takes the query over: it is released in every case. */
export async function rowAnswer(call: Call, query: RowQuery): Promise<Answer> {
  const { tag } = query
  try {
    if (call.hasTag(tag)) {
      query.release()
      return notModified(tag)
    }
    const headers = { ETag: tag }
    const whole = call.method === 'HEAD' ? undefined : await query.whole()
    if (whole) {
      query.release()
      return { kind: 'whole', status: 200, headers, body: whole, isChunked: true }
    }
    const begun = call.method === 'HEAD' ? query.chunks() : await begin(query.chunks())
    if (Symbol.asyncIterator in begun) return streamed(begun, { headers, release: () => query.release() })
    query.release()
    return { kind: 'whole', status: 200, headers, body: begun.whole, isChunked: true }
  } catch (error) {
    query.release()
    throw error
  }
}

/** The `queries` of a body. */
export function listedQueries(body: unknown): readonly unknown[] {
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  if (body.queries === undefined) throw badRequest('POST body must include `queries` parameter.')
  if (!Array.isArray(body.queries)) throw badRequest('`queries` member must be an array.')
  return body.queries
}

type Opening = () => RowQuery | Promise<RowQuery>

/** Queries are opened one after the other, when the one before is sent. */
export async function queriesAnswer(opening: readonly Opening[]): Promise<Answer> {
  const chunks = resultChunks(opening)
  const begun = await begin(chunks)
  if (Symbol.asyncIterator in begun) return streamed(begun, { release: () => void chunks.return(undefined) })
  return { kind: 'whole', status: 200, headers: {}, body: begun.whole, isChunked: true }
}

async function* resultChunks(opening: readonly Opening[]): AsyncGenerator<string | Buffer> {
  let separator = '{"results":['
  for (const open of opening) {
    using query = await open()
    yield separator
    separator = ','
    yield* query.chunks()
  }
  yield opening.length === 0 ? '{"results":[]}\n' : ']}\n'
}

/**
 * The same pieces, of which the first two are made: where they cannot be there is still an error to be told, and where
 * there is but one it goes out in one go.
 */
async function begin(chunks: Chunks): Promise<Chunks | { readonly whole: string | Buffer }> {
  const first = await chunks.next()
  const second = await chunks.next()
  if (first.done) return { whole: '' }
  return second.done ? { whole: first.value } : resumed([first.value, second.value], chunks)
}

async function* resumed(made: readonly (string | Buffer)[], rest: Chunks): Chunks {
  try {
    yield* made
    yield* rest
  } finally {
    await rest.return(undefined)
  }
}

type Chunks = AsyncGenerator<string | Buffer>
