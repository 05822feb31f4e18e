/** What a client accepts: media types and content codings. */
import { badRequest, RequestError } from '../../document/request-error.ts'
import type { Call } from '../server/call.ts'

/** Whether the client names this kind of multipart: one that takes anything gets JSON. */
export function acceptsMultipart(call: Call, subtype: 'mixed' | 'related'): boolean {
  return (call.header('accept') ?? '').split(',').some((entry) => {
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
export function acceptedCodings(call: Call): AcceptedCodings {
  const header = call.header('accept-encoding')
  if (header === undefined) return { gzip: false, identity: true }
  const weights = new Map(
    header
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

export function notAcceptable(): RequestError {
  return new RequestError(406, 'not_acceptable', 'unsupported encoding')
}

const CODING = /^\s*([!#$%&'*+.^_`|~0-9a-z-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?$/i

function codingWeight(entry: string): [string, number] {
  const [, coding, weight = '1'] = CODING.exec(entry) ?? []
  if (coding === undefined || Number(weight) > 1) throw badRequest('')
  return [coding.toLowerCase(), Number(weight)]
}
