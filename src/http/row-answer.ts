/** Rows as a reply: those of one query with their tag, or those of several queries one after the other. */
import { badRequest } from '../document/request-error.ts'
import { isObject } from '../encoding/json-value.ts'
import type { RowQuery } from '../views/query/row-query.ts'
import { type Answer, notModified, streamed } from './answer.ts'
import type { Call } from './call.ts'

/** Takes the query over: it is released in every case. */
export async function rowAnswer(call: Call, query: RowQuery): Promise<Answer> {
  const { tag } = query
  try {
    if (call.hasTag(tag)) {
      query.release()
      return notModified(tag)
    }
    const chunks = call.method === 'HEAD' ? query.chunks() : await begun(query.chunks())
    return streamed(chunks, { headers: { ETag: tag }, release: () => query.release() })
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

/** Queries are opened one after the other, when the one before is sent. */
export async function queriesAnswer(opening: readonly (() => Promise<RowQuery>)[]): Promise<Answer> {
  return streamed(await begun(resultChunks(opening)))
}

async function* resultChunks(opening: readonly (() => Promise<RowQuery>)[]): AsyncGenerator<string | Buffer> {
  let separator = '{"results":['
  for (const open of opening) {
    using query = await open()
    yield separator
    separator = ','
    yield* query.chunks()
  }
  yield opening.length === 0 ? '{"results":[]}\n' : ']}\n'
}

/** The same pieces, the first of which is made already: where it cannot be made there is still an error to be told. */
async function begun(chunks: AsyncGenerator<string | Buffer>): Promise<AsyncGenerator<string | Buffer>> {
  const first = await chunks.next()
  return (async function* () {
    try {
      if (!first.done) yield first.value
      yield* chunks
    } finally {
      await chunks.return(undefined)
    }
  })()
}
