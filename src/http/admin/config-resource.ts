/** `_config`: the settings of the server, read and changed while it runs. */

import type { Configuration, SettingLayer } from '../../config/configuration.ts'
import { canonicalSection } from '../../config/ini-text.ts'
import { ENGINES, FILES, SettingError } from '../../config/setting-rules.ts'
import { parseTerm } from '../../config/term-text.ts'
import { badRequest, notFound } from '../../document/request-error.ts'
import { shownAddress } from '../../storage/postgres/engine-address.ts'
import { EngineUnavailableError } from '../../storage/storage-error.ts'
import { readJson, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError, MethodNotAllowedError } from '../server/errors.ts'

const METHODS = 'GET,PUT,DELETE'

export function readSettings(call: Call, { configuration }: HttpContext): Answer {
  const { segments } = call
  const [, section, key] = segments
  if (segments.length > 3) throw new MethodNotAllowedError(METHODS)
  if (section === undefined && call.query('layers') === 'true') return json(layers(configuration))
  if (section === undefined) {
    const all = configuration.sections().map((name) => [name, shownSection(name, configuration)])
    return json(Object.fromEntries(all))
  }
  if (key === undefined) return json(shownSection(section, configuration))
  return json(known(shown(canonicalSection(section), key, configuration.get(section, key))))
}

function shownSection(name: string, configuration: Configuration): Record<string, string> {
  const section = canonicalSection(name)
  return Object.fromEntries(
    [...configuration.section(name)].map(([key, value]) => [key, shown(section, key, value) ?? value]),
  )
}

/** An address of an engine is shown without its password. */
function shown(section: string, key: string, value: string | undefined): string | undefined {
  return value !== undefined && value !== FILES && isEngineAddress(section, key) ? shownAddress(value) : value
}

function isEngineAddress(section: string, key: string): boolean {
  return (section === 'service' && key === 'engine') || section === ENGINES
}

/** The layer that each value comes from. */
function layers(configuration: Configuration): Record<string, Record<string, SettingLayer | undefined>> {
  const ofSection = (name: string) =>
    Object.fromEntries([...configuration.section(name).keys()].map((key) => [key, configuration.layerOf(name, key)]))
  return Object.fromEntries(configuration.sections().map((name) => [name, ofSection(name)]))
}

export async function writeSetting(call: Call, context: HttpContext): Promise<Answer> {
  const { configuration, log } = context
  const { section, key } = settingOf(call, configuration)
  const raw = call.query('raw') ?? ''
  if (!['', 'true', 'false'].includes(raw)) {
    return json({ error: `Bad value for 'raw' option: ${raw}` }, { status: 400 })
  }
  const value = await readJson(call, context)
  if (typeof value !== 'string') throw badRequest('value must be a JSON string')
  const options = { persist: isToPersist(call), isPlainPassword: raw === 'false' }
  const before = await changing(() => configuration.set(section, key, value, options))
  // Values may be secrets, and so may keys of some sections; the name of the setting is enough.
  log.info('A setting was changed.', { setting: `${section}/${key}` })
  return json(before ?? '')
}

export async function deleteSetting(call: Call, { configuration, log }: HttpContext): Promise<Answer> {
  const { section, key } = settingOf(call, configuration)
  const before = await changing(() => configuration.delete(section, key, { persist: isToPersist(call) }))
  const answer = json(known(before))
  log.info('A setting was removed.', { setting: `${section}/${key}` })
  return answer
}

/** `POST _node/{name}/_config/_reload`: the operator's files as they are now. */
export async function reloadSettings(call: Call, { configuration, log }: HttpContext): Promise<Answer> {
  if (call.method !== 'POST') throw new MethodNotAllowedError('POST')
  requireJsonType(call)
  await changing(() => configuration.refresh())
  log.info('The files of settings were read again.')
  return json({ ok: true })
}

/** The one setting that a change is for, if it may be changed. */
function settingOf({ segments }: Call, configuration: Configuration): { section: string; key: string } {
  const [, section, key] = segments
  if (section === undefined || key === undefined || segments.length > 3) throw new MethodNotAllowedError(METHODS)
  // A client that may change settings must not be able to make the server send this password elsewhere.
  if (isEngineAddress(canonicalSection(section), key)) {
    throw new HttpError(400, 'modification_not_allowed', 'This config variable is read-only')
  }
  const whitelist = configuration.get('httpd', 'config_whitelist')
  if (!isWhitelisted(whitelist, canonicalSection(section), key)) {
    throw new HttpError(400, 'modification_not_allowed', 'This config variable is read-only')
  }
  return { section: canonicalSection(section), key }
}

function known(value: string | undefined): string {
  if (value === undefined) throw notFound('unknown_config_value')
  return value
}

function isToPersist(call: Call): boolean {
  return (call.header('x-service-persist') ?? call.header('x-couch-persist')) !== 'false'
}

async function changing<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change()
  } catch (error) {
    if (error instanceof SettingError) throw badRequest(error.message)
    if (error instanceof EngineUnavailableError) throw error
    throw new HttpError(500, 'error', error instanceof Error ? error.message : String(error))
  }
}

/**
 * Whether a setting may be changed over HTTP, where the operator says so: `[{httpd, config_whitelist}, {log, "*"}]`. If
 * the list cannot be parsed, only the list itself may be changed, so that it can be corrected.
 */
function isWhitelisted(whitelist: string | undefined, section: string, key: string): boolean {
  if (whitelist === undefined) return true
  const list = parseTerm(whitelist)
  if (list?.kind !== 'list') return section === 'httpd' && key === 'config_whitelist'
  return list.items.some(({ kind, items: [allowedSection, allowedKey, ...rest] }) => {
    if (kind !== 'tuple' || !allowedSection || !allowedKey || rest.length > 0) return false
    if (canonicalSection(allowedSection.text) !== section) return false
    return allowedKey.text === '*' || allowedKey.text === key
  })
}
