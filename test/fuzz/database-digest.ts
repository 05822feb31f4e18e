/**
 * What a database holds, in one text that is the same as long as nothing has changed: everything, or only what is cheap to ask
 * for. A document does not change without its database's sequences, unless something is badly wrong.
 */
import { exchange } from './exchange.ts'
import { parseReplies } from './replies.ts'

export const ADMIN = `Authorization: Basic ${btoa('admin:secret')}`

const CHEAP_PLACES = ['_local_docs?include_docs=true', '_security']
const PLACES = [
  '_changes?style=all_docs&include_docs=true&attachments=true&conflicts=true',
  'torn?open_revs=all&attachments=true&revs=true',
  'files?open_revs=all&attachments=true&revs=true',
  '_purged_infos',
  '_revs_limit',
  '_purged_infos_limit',
  ...CHEAP_PLACES,
]

export interface DigestOptions {
  readonly depth: 'everything' | 'cheap'
  /** Of the server, beside the database. */
  readonly places: readonly string[]
}

/** What writes the database has not flushed yet is not in it: `batch=ok` is written first. */
export async function databaseDigest(url: URL, database: string, { depth, places }: DigestOptions): Promise<string> {
  const lines = (method: string, path: string, more = '') =>
    `${method} ${path} HTTP/1.1\r\nHost: x\r\n${ADMIN}\r\nAccept: application/json\r\n${more}\r\n`
  const requests = [
    lines('POST', `/${database}/_ensure_full_commit`, 'Content-Type: application/json\r\nContent-Length: 0\r\n'),
    ...(depth === 'cheap' ? CHEAP_PLACES : PLACES).map((place) => lines('GET', `/${database}/${place}`)),
    ...places.map((place) => lines('GET', place)),
    lines('GET', `/${database}`, 'Connection: close\r\n'),
  ]
  const { received } = await exchange(url, Buffer.from(requests.join('')), { kind: 'until closed' })
  const replies = parseReplies(received, []).slice(1)
  const { doc_count, doc_del_count, update_seq, purge_seq } = JSON.parse(replies.pop()?.body ?? '{}')
  const contents = replies.map(({ status, body }) => `${status} ${body}`)
  return [...contents, doc_count, doc_del_count, update_seq, purge_seq].join('\n')
}
