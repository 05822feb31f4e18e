/** Holds the listing of a database, asked in many ways, against a plain count of all its rows. */
import type { Client, DatabaseInformation } from '../../support/client.ts'
import type { Random } from '../random.ts'

interface Listing {
  readonly total_rows: number
  readonly offset: number
  readonly rows: readonly { readonly id: string }[]
}

const QUESTIONS = 8
const LIMIT = 5

/** The problems, in sentences. Nobody may be writing. */
export async function listingProblems(client: Client, database: string, random: Random): Promise<string[]> {
  const { doc_count } = (await client.request('GET', `/${database}`)).as<DatabaseInformation>()
  const whole = await list(client, database, '')
  const ids = whole.rows.map(({ id }) => id)
  const problems: string[] = []
  if (whole.total_rows !== doc_count || ids.length !== doc_count) {
    problems.push(`${database} counts ${doc_count} documents, lists ${ids.length} and says ${whole.total_rows}`)
  }
  const sorted = ids.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  if (ids.join() !== sorted.join()) problems.push(`${database} lists its documents out of order`)
  for (let question = 0; question < QUESTIONS; question++) {
    const descending = random.chance(0.5)
    const skip = random.below(ids.length + 2)
    const start = startKey(ids, random)
    const query = `?limit=${LIMIT}&skip=${skip}&descending=${descending}&startkey=${encodeURIComponent(JSON.stringify(start))}`
    const { offset, rows } = await list(client, database, query)
    const ordered = descending ? ids.toReversed() : ids
    const before = ordered.filter((id) => (descending ? id > start : id < start)).length
    const right = ordered.slice(before).slice(skip, skip + LIMIT)
    const rightOffset = before + Math.min(skip, ids.length - before)
    if (offset !== rightOffset) problems.push(`${database}${query} has the offset ${offset} and not ${rightOffset}`)
    if (rows.map(({ id }) => id).join() !== right.join()) problems.push(`${database}${query} lists the wrong rows`)
  }
  return problems
}

/** An id that is there, or one that is not. */
function startKey(ids: readonly string[], random: Random): string {
  const id = ids[random.below(ids.length)] ?? 'none'
  return random.chance(0.5) ? id : id.slice(0, 1 + random.below(id.length))
}

async function list(client: Client, database: string, query: string): Promise<Listing> {
  return (await client.request('GET', `/${database}/_all_docs${query}`)).as<Listing>()
}
