/** Questions and orders about many revisions at once: which are missing, which are to be purged. */
import { revisionDifferences } from '../database/revision-differences.ts'
import { badRequest } from '../document/request-error.ts'
import { parseRevision, type RevisionId } from '../document/revision-id.ts'
import { type Answer, json } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import { readJsonObject, requireJsonType } from './request-body.ts'

export async function missingRevisions(call: Call, context: HttpContext): Promise<Answer> {
  const differences = await askedDifferences(call, context)
  return json({ missing_revs: Object.fromEntries([...differences].map(([id, { missing }]) => [id, missing])) })
}

export async function revisionsDiff(call: Call, context: HttpContext): Promise<Answer> {
  const differences = await askedDifferences(call, context)
  return json(
    Object.fromEntries(
      [...differences].map(([id, { missing, possibleAncestors }]) => [
        id,
        possibleAncestors.length > 0 ? { missing, possible_ancestors: possibleAncestors } : { missing },
      ]),
    ),
  )
}

export async function purge(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call, context)
  requireJsonType(call)
  const { purgeSequence, purged } = await database.purge(revisionLists(await readJsonObject(call, context)))
  return json({ purge_seq: purgeSequence, purged: Object.fromEntries(purged) })
}

async function askedDifferences(call: Call, context: HttpContext) {
  const database = await databaseOf(call, context)
  const asked = revisionLists(await readJsonObject(call, context))
  using view = database.view()
  return await revisionDifferences(view, asked)
}

function revisionLists(body: Record<string, unknown>): Map<string, RevisionId[]> {
  return new Map(
    Object.entries(body).map(([id, revisions]) => {
      if (!Array.isArray(revisions)) throw badRequest('Invalid list of revisions')
      return [id, revisions.map(parseRevision)]
    }),
  )
}
