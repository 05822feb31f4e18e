/** `_security`: who may do what with a database. */
import assert from 'node:assert/strict'
import { badRequest } from '../../document/request-error.ts'
import { JsonReader } from '../../encoding/json/json-text.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { parsing, readBytes } from '../bodies/request-body.ts'
import { type Answer, json, jsonText } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export async function security(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  using view = database.view()
  return jsonText((await view.security()) ?? '{}')
}

/** A body that is not an object is refused before the rights are checked. */
export async function readSecurity(call: Call, context: HttpContext): Promise<void> {
  const sent = await readBytes(call, Math.min(LARGEST_BYTES, context.settings.current.largestBody))
  const text = parsing(() => {
    const reader = new JsonReader(sent)
    const whole = reader.text()
    reader.end()
    return whole
  })
  const value: unknown = JSON.parse(text.toString())
  // Without a reason, as in CouchDB.
  if (!isObject(value)) throw badRequest('')
  sentObjects.set(call, { text, value })
}

/** The parsed body of a request, until it is stored. */
const sentObjects = new WeakMap<Call, { readonly text: Buffer; readonly value: Readonly<Record<string, unknown>> }>()

/** Kept as it was sent, further members too. */
export async function setSecurity(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  const sent = sentObjects.get(call)
  assert(sent, 'The security object was read before.')
  checkSecurity(sent.value)
  await database.setSecurity(sent.text)
  return json({ ok: true })
}

/** It is evaluated for every request, so its size is bounded: some thousand names. */
const LARGEST_BYTES = 256 * 1024

/** `readers` is the old name of members. */
const GROUPS = ['admins', 'members', 'readers']
const LISTS = ['names', 'roles']

function checkSecurity(value: Readonly<Record<string, unknown>>): void {
  for (const group of GROUPS) {
    const lists = value[group] ?? {}
    if (!isObject(lists)) throw badRequest(`${group} must be a JSON object`)
    for (const list of LISTS) {
      const entries = lists[list] ?? []
      if (!Array.isArray(entries) || !entries.every((entry) => typeof entry === 'string')) {
        throw badRequest(`${list} must be a JSON list of strings`)
      }
    }
  }
}
