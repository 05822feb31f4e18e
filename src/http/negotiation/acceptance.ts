/** What a client accepts, as its headers say: media types and content codings. */

import { badRequest, type RequestError } from '../../document/request-error.ts'
import { HttpError } from '../server/errors.ts'

/** Whether the client names this multipart type: one that accepts anything gets JSON. */
export function acceptsMultipart(accept: string | undefined, subtype: 'mixed' | 'related'): boolean {
  return (accept ?? '').split(',').some((entry) => {
    const [type = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase())
    const isNamed = type === `multipart/${subtype}` || type === 'multipart/*'
    return isNamed && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))
  })
}

export interface AcceptedCodings {
  readonly gzip: boolean
  readonly identity: boolean
}

/** Without the header only plain content is accepted. */
export function acceptedCodings(acceptEncoding: string | undefined): AcceptedCodings {
  if (acceptEncoding === undefined) return { gzip: false, identity: true }
  const weights = new Map(
    acceptEncoding
      .split(',')
      .filter((entry) => entry.trim() !== '')
      .map(codingWeight),
  )
  const others = weights.get('*')
  const accepted = {
    gzip: (weights.get('gzip') ?? weights.get('x-gzip') ?? others ?? 0) > 0,
    identity: (weights.get('identity') ?? others ?? 1) > 0,
  }
  if (!accepted.gzip && !accepted.identity) throw notAcceptable()
  return accepted
}

function notAcceptable(): RequestError {
  return new HttpError(406, 'not_acceptable', 'unsupported encoding')
}

const CODING = /^\s*([!#$%&'*+.^_`|~0-9a-z-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?$/i

function codingWeight(entry: string): [string, number] {
  const [, coding, weight = '1'] = CODING.exec(entry) ?? []
  if (coding === undefined || Number(weight) > 1) throw badRequest('')
  return [coding.toLowerCase(), Number(weight)]
}

/**
 * Whether an `Accept` header names `application/json` with a weight other than zero. Read in one pass, since every
 * request has one and a client may make it long.
 */
export function namesJson(accept: string): boolean {
  const text = accept.toLowerCase()
  for (let at = text.indexOf(JSON_TYPE); at >= 0; at = text.indexOf(JSON_TYPE, at + JSON_TYPE.length)) {
    const end = at + JSON_TYPE.length
    const isWhole = (at === 0 || isBetween(text[at - 1]!)) && (end === text.length || isAfter(text[end]!))
    if (isWhole && !weighsNothing(text, end)) return true
  }
  return false
}

const JSON_TYPE = 'application/json'

function isBetween(character: string): boolean {
  return character === ',' || isBlank(character)
}

function isAfter(character: string): boolean {
  return character === ';' || isBetween(character)
}

function isBlank(character: string): boolean {
  return character === ' ' || character === '\t'
}

/** Whether the parameter that comes next is a weight of zero. */
function weighsNothing(text: string, start: number): boolean {
  const semicolon = skipBlanks(text, start)
  if (text[semicolon] !== ';') return false
  const weight = skipBlanks(text, semicolon + 1)
  if (!text.startsWith('q=0', weight)) return false
  let end = weight + 3
  if (text[end] === '.') end++
  while (text[end] === '0' && text[weight + 3] === '.') end++
  end = skipBlanks(text, end)
  return end === text.length || text[end] === ',' || text[end] === ';'
}

function skipBlanks(text: string, start: number): number {
  let at = start
  while (at < text.length && isBlank(text[at]!)) at++
  return at
}

/** Whether a client accepts this media type; without the header it accepts all. */
export function acceptsType(accept: string | undefined, type: string, subtype: string): boolean {
  if (accept === undefined || accept.trim() === '') return true
  return accept.split(',').some((range) => {
    const [name = '', ...parameters] = range.split(';').map((each) => each.trim().toLowerCase())
    const isRefused = parameters.some((each) => /^q\s*=\s*0(\.0*)?$/.test(each))
    return !isRefused && ['*/*', `${type}/*`, `${type}/${subtype}`].includes(name)
  })
}
