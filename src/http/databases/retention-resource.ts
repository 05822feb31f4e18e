/** `_tombstones` and `_expiry`: how long tombstones are kept, and whether documents expire. Both are off by default. */

import { forgetExpiry } from '../../database/retention/document-expiry.ts'
import { knownReplicas } from '../../database/retention/known-replicas.ts'
import {
  EXPIRY_SECTION,
  expiryFieldOf,
  isExpiryField,
  RETENTION_SECTION,
  retentionOf,
  retentionSeconds,
} from '../../database/retention/retention-settings.ts'
import { badRequest } from '../../document/request-error.ts'
import { readJsonObject } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export async function tombstones(call: Call, { configuration }: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const { tombstones: progress, updateSequence, deletedCount } = await database.latestState()
  const replicas = await knownReplicas(database)
  return json({
    retention_seconds: retentionOf(configuration, database.name) ?? null,
    tombstones: deletedCount,
    purged_through: progress?.through ?? 0,
    // Replicas that have not seen all changes, the one furthest behind first.
    held_by: replicas
      .filter(({ sequence }) => sequence < updateSequence)
      .toSorted((a, b) => a.sequence - b.sequence)
      .slice(0, SHOWN_REPLICAS),
  })
}

const SHOWN_REPLICAS = 100

export async function setTombstones(call: Call, context: HttpContext): Promise<Answer> {
  const { name } = await databaseOf(call)
  const { retention_seconds: seconds } = await readJsonObject(call, context)
  if (seconds !== null && (typeof seconds !== 'number' || retentionSeconds(String(seconds)) === undefined)) {
    throw badRequest('`retention_seconds` must be a whole number of seconds above zero, or null')
  }
  if (seconds === null) await context.configuration.delete(RETENTION_SECTION, name)
  else await context.configuration.set(RETENTION_SECTION, name, String(seconds))
  return json({ ok: true })
}

export async function expiry(call: Call, { configuration }: HttpContext): Promise<Answer> {
  const { name } = await databaseOf(call)
  return json({ field: expiryFieldOf(configuration, name) ?? null })
}

export async function setExpiry(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const { field } = await readJsonObject(call, context)
  if (field !== null && !isExpiryField(field)) {
    throw badRequest(
      '`field` must be the name of a member of documents that does not begin with an underscore, or null',
    )
  }
  if (field !== null) {
    await context.configuration.set(EXPIRY_SECTION, database.name, field)
    return json({ ok: true })
  }
  await context.configuration.delete(EXPIRY_SECTION, database.name)
  await forgetExpiry(database)
  return json({ ok: true })
}
