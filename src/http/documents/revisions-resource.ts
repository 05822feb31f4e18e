/** `_missing_revs`, `_revs_diff` and `_purge`: requests about many revisions at once. */
import { revisionDifferences } from '../../database/reading/revision-differences.ts'
import { parseRevision, type RevisionId } from '../../document/ids.ts'
import { badRequest, tooManyItems } from '../../document/request-error.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import { joinedMembers } from '../bodies/joined-text.ts'
import { readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, jsonText } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export async function missingRevisions(call: Call, context: HttpContext): Promise<Answer> {
  const differences = await askedDifferences(call, context)
  const around = { before: '{"missing_revs":', after: '}' }
  return jsonText(await joinedMembers([...differences], ([id, { missing }]) => member(id, missing), around))
}

export async function revisionsDiff(call: Call, context: HttpContext): Promise<Answer> {
  const differences = await askedDifferences(call, context)
  return jsonText(
    await joinedMembers([...differences], ([id, { missing, possibleAncestors }]) =>
      member(id, possibleAncestors.length > 0 ? { missing, possible_ancestors: possibleAncestors } : { missing }),
    ),
  )
}

export async function purge(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  const { purgeSequence, purged } = await database.purge(await askedRevisions(call, context))
  const around = { before: `{"purge_seq":${purgeSequence},"purged":`, after: '}' }
  return jsonText(await joinedMembers([...purged], ([id, revisions]) => member(id, revisions), around))
}

function member(id: string, value: unknown): string {
  return `${JSON.stringify(id)}:${JSON.stringify(value)}`
}

async function askedDifferences(call: Call, context: HttpContext) {
  const database = await databaseOf(call)
  const asked = await askedRevisions(call, context)
  using view = database.view()
  return await revisionDifferences(view, asked)
}

async function askedRevisions(call: Call, context: HttpContext): Promise<Map<string, RevisionId[]>> {
  const body = await readJsonObject(call, context)
  const { mostItems } = context.settings.current
  const slice = new TimeSlice()
  const asked = new Map<string, RevisionId[]>()
  let items = 0
  for (const id of Object.keys(body)) {
    const revisions = body[id]
    if (!Array.isArray(revisions)) throw badRequest('Invalid list of revisions')
    items += Math.max(1, revisions.length)
    if (items > mostItems) throw tooManyItems(mostItems)
    const parsed: RevisionId[] = []
    for (const revision of revisions) {
      parsed.push(parseRevision(revision))
      if (slice.isOver) await slice.pause()
    }
    asked.set(id, parsed)
    if (slice.isOver) await slice.pause()
  }
  return asked
}
