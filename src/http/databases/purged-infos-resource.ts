/** `_purged_infos` and its limit: the purges that are still stored. */

import type { LastingView } from '../../database/database-view.ts'
import { PURGES } from '../../database/layout/keys.ts'
import { badRequest } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import { readJson } from '../bodies/request-body.ts'
import { type Answer, json, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export async function purgedInfos(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  const view = database.lastingView()
  return streamed(infoTexts(view), { release: () => view.release() })
}

async function* infoTexts(view: LastingView): AsyncGenerator<string> {
  let separator = ''
  yield '{"purged_infos":['
  for (let rest: KeyRange | undefined = PURGES; rest; ) {
    const page: Page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      const purged: unknown = JSON.parse(page.value(row).toString())
      for (const [id, revs] of Object.entries(isObject(purged) ? purged : {})) {
        yield `${separator}\n${JSON.stringify({ id, revs })}`
        separator = ','
      }
    }
    rest = page.next
  }
  yield '\n]}\n'
}

export async function purgeLimit(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  return json((await database.information()).purgeLimit)
}

export async function setPurgeLimit(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const limit = await readJson(call, context)
  if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 1) {
    throw badRequest('`purged_infos_limit` must be positive integer')
  }
  await database.setPurgeLimit(limit)
  return json({ ok: true })
}
