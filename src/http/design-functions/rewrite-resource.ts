/** `_rewrite`: the rewrite rules of a design document, which one is for a request, and where it leads. */

import { invalidJson, notFound, type RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'
import { Rewritten } from '../server/route.ts'
import { designId } from './function-request.ts'

export async function rewriteRequest(call: Call, context: HttpContext): Promise<Rewritten> {
  const database = await databaseOf(call)
  using view = database.view()
  const { members } = await database.design(view, designId(call))
  view.release()
  const isSecure = context.configuration.get('httpd', 'secure_rewrites') !== 'false'
  const rules = parseRules(members.rewrites, { isSecure })
  const url = rewrite(rules, {
    base: call.segments.slice(0, 3),
    method: call.method === 'HEAD' ? 'GET' : call.method,
    path: call.segments.slice(4),
    query: call.parameters,
  })
  if (url === undefined) throw notFound('missing')
  // Lets handlers see the path before all rewriting.
  call.request.headers['x-service-requested-path'] ??= call.requestedUrl
  return new Rewritten(url)
}

export interface RewriteRule {
  readonly method: string
  readonly from: readonly string[]
  readonly to: readonly string[]
  readonly query: Readonly<Record<string, unknown>>
  readonly formats: Readonly<Record<string, unknown>>
}

export interface RewriteRequest {
  /** The segments of the design document, decoded: targets are relative to it. */
  readonly base: readonly string[]
  /** GET for HEAD too. */
  readonly method: string
  /** What comes after `_rewrite`, decoded. */
  readonly path: readonly string[]
  readonly query: ReadonlyMap<string, string>
}

/** Reads all rules, since one that is wrong makes all of them useless. */
export function parseRules(rules: unknown, { isSecure }: { readonly isSecure: boolean }): RewriteRule[] {
  if (rules === undefined || rules === null) throw new HttpError(404, 'rewrite_error', 'Invalid path.')
  if (!Array.isArray(rules)) {
    throw new HttpError(400, 'rewrite_error', 'Rewrite rules are a String. They must be a JSON Array.')
  }
  return rules.filter(isObject).map((rule) => parseRule(rule, isSecure))
}

/** The path and query that the first rule leads to that is for the request; undefined when none is. */
export function rewrite(rules: readonly RewriteRule[], request: RewriteRequest): string | undefined {
  for (const rule of rules) {
    if (rule.method !== ANYTHING && rule.method !== request.method) continue
    const bound = match(rule.from, request.path)
    if (bound) return targetOf(rule, bound, request)
  }
  return undefined
}

const ANYTHING = '*'

/** More would lead out of the database. */
const MOST_UPWARD = 2

function parseRule(rule: Record<string, unknown>, isSecure: boolean): RewriteRule {
  const { from, to, method, query, formats } = rule
  if (typeof to !== 'string') throw new HttpError(500, 'error', 'invalid_rewrite_target')
  const parsed = {
    method: typeof method === 'string' ? method : ANYTHING,
    from: segmentsOf(typeof from === 'string' ? from : ANYTHING),
    to: segmentsOf(to),
    query: isObject(query) ? query : {},
    formats: isObject(formats) ? formats : {},
  }
  if (isSecure && [parsed.from, parsed.to].some((path) => upwardIn(path) > MOST_UPWARD)) {
    throw new HttpError(500, 'insecure_rewrite_rule', 'too many ../.. segments')
  }
  return parsed
}

function segmentsOf(path: string): string[] {
  return path.split('/').filter((segment) => segment !== '')
}

function upwardIn(path: readonly string[]): number {
  return path.filter((segment) => segment === '..').length
}

/** What a pattern's variables stand for, and the segments that its last star takes. */
interface Bound {
  readonly variables: ReadonlyMap<string, string>
  readonly rest: readonly string[]
}

function match(pattern: readonly string[], path: readonly string[]): Bound | undefined {
  const variables = new Map<string, string>()
  const endsInStar = pattern.at(-1) === ANYTHING
  if (endsInStar ? path.length < pattern.length : path.length !== pattern.length) return undefined
  for (const [i, expected] of pattern.entries()) {
    const actual = path[i] ?? ''
    if (expected === ANYTHING) {
      if (i === pattern.length - 1) variables.set(ANYTHING, actual)
    } else if (isVariable(expected)) variables.set(expected.slice(1), actual)
    else if (expected !== actual) return undefined
  }
  return { variables, rest: endsInStar ? path.slice(pattern.length - 1) : [] }
}

function isVariable(segment: string): boolean {
  return segment.startsWith(':')
}

/** Parameters whose values are JSON, on the way in and on the way out. */
const JSON_PARAMETERS = new Set(['key', 'keys', 'startkey', 'start_key', 'endkey', 'end_key'])

function targetOf(rule: RewriteRule, bound: Bound, { base, query }: RewriteRequest): string {
  const variables = new Variables()
  for (const [name, text] of query) variables.set(name, JSON_PARAMETERS.has(name) ? parsed(text) : text, text.length)
  for (const [name, text] of bound.variables) variables.set(name, text, text.length)
  const parameters = new Map([...variables.all()].filter(([name]) => name !== ANYTHING))
  for (const [name, value] of Object.entries(rule.query)) parameters.set(name, substituted(value, variables, rule))
  const pairs = [...parameters].map(([name, value]) => `${escaped(name)}=${escaped(parameterText(name, value))}`)
  const path = `/${targetPath(base, rule.to, variables, bound.rest).join('/')}`
  const target = pairs.length === 0 ? path : `${path}?${pairs.join('&')}`
  if (target.length > LONGEST_TARGET) throw tooLong()
  return target
}

/** A rule may repeat a variable and lead to itself: without a limit a short request would fill all memory. */
const LONGEST_TARGET = 256 * 1024

/** The values of variables. A result that would be too long is refused before it is built. */
class Variables {
  readonly #values = new Map<string, { readonly value: unknown; readonly characters: number }>()
  #charactersLeft = LONGEST_TARGET

  set(name: string, value: unknown, characters: number): void {
    this.#values.set(name, { value, characters })
  }

  has(name: string): boolean {
    return this.#values.has(name)
  }

  /** The value, to be put into the target. */
  take(name: string): unknown {
    const variable = this.#values.get(name)
    this.#charactersLeft -= variable?.characters ?? 0
    if (this.#charactersLeft < 0) throw tooLong()
    return variable?.value
  }

  *all(): Generator<[name: string, value: unknown]> {
    for (const [name, { value }] of this.#values) yield [name, value]
  }
}

function tooLong(): RequestError {
  return new HttpError(414, 'too_long', 'the request entity is too long')
}

/** Only the rule may lead upwards: dots in the request are ordinary names. */
function targetPath(
  base: readonly string[],
  to: readonly string[],
  variables: Variables,
  rest: readonly string[],
): string[] {
  const path = base.map(escapedSegment)
  for (const segment of to) {
    if (segment === ANYTHING) return [...path, ...rest.map(escapedSegment)]
    if (segment === '..') path.pop()
    else if (isVariable(segment)) path.push(escapedSegment(pathText(variables.take(segment.slice(1)))))
    else if (segment !== '.') path.push(escapedSegment(segment))
  }
  return path
}

function pathText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'undefined')
}

function escapedSegment(segment: string): string {
  return segment === '.' || segment === '..' ? segment.replaceAll('.', '%2E') : escaped(segment)
}

function escaped(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

/** A value of the rule's query with its variables replaced; in lists one level deep. */
function substituted(value: unknown, variables: Variables, rule: RewriteRule): unknown {
  if (Array.isArray(value)) {
    return value.map((each: unknown) => (isName(each) ? boundValue(each, variables, rule) : each))
  }
  return isName(value) || value === ANYTHING ? boundValue(value, variables, rule) : value
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && isVariable(value)
}

/** An unknown variable stays as it is. */
function boundValue(text: string, variables: Variables, { formats }: RewriteRule): unknown {
  const name = text === ANYTHING ? ANYTHING : text.slice(1)
  if (!variables.has(name)) return text
  const value = variables.take(name)
  const format = Object.hasOwn(formats, name) ? formats[name] : undefined
  return typeof value === 'string' ? formatted(value, format) : value
}

function formatted(text: string, format: unknown): unknown {
  if (format === 'int') return /^[+-]?\d{1,15}$/.test(text) ? Number(text) : text
  if (format !== 'bool') return text
  const lower = text.toLowerCase()
  return lower === 'true' || lower === 'false' ? lower === 'true' : text
}

function parameterText(name: string, value: unknown): string {
  return typeof value === 'string' && !JSON_PARAMETERS.has(name) ? value : JSON.stringify(value)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalidJson()
  }
}
