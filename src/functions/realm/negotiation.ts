/** `provides` and `registerType`: which of several functions answers a request, and with what media type. */
import type { UserFunction } from './compiler.ts'
import type { Failures } from './failure.ts'

export interface Negotiation {
  /** Registrations last for one call. */
  reset(): void
  readonly isUsed: boolean
  provides(key: string, answer: UserFunction): void
  registerType(key: string, ...types: string[]): void
  choose(request: NegotiatedRequest): { readonly answer: UserFunction; readonly type: string }
}

export interface NegotiatedRequest {
  readonly query?: { readonly format?: unknown } | undefined
  readonly headers?: { readonly [name: string]: unknown } | undefined
}

/** A media type or range, taken apart. */
interface MediaType {
  readonly type: string
  readonly subtype: string
  readonly parameters: readonly string[]
  readonly quality: number
}

interface Candidate {
  readonly key: string
  readonly type: string
  readonly score: number
  readonly quality: number
  /** Whether the request takes anything, so that no type of a key is better than another. */
  readonly isAny: boolean
}

export function realmNegotiation({ failure }: Failures): Negotiation {
  const { create, entries } = Object
  const known: { readonly [key: string]: readonly string[] } = {
    all: ['*/*'],
    text: ['text/plain; charset=utf-8', 'txt'],
    html: ['text/html; charset=utf-8'],
    xhtml: ['application/xhtml+xml', 'xhtml'],
    xml: ['application/xml', 'text/xml', 'application/x-xml'],
    js: ['text/javascript', 'application/javascript', 'application/x-javascript'],
    css: ['text/css'],
    ics: ['text/calendar'],
    csv: ['text/csv'],
    rss: ['application/rss+xml'],
    atom: ['application/atom+xml'],
    yaml: ['application/x-yaml', 'text/yaml'],
    multipart_form: ['multipart/form-data'],
    url_encoded_form: ['application/x-www-form-urlencoded'],
    json: ['application/json', 'text/x-json'],
  }
  let registered: Record<string, readonly string[]> = create(null)
  let provided: { readonly key: string; readonly answer: UserFunction }[] = []

  const reset = () => {
    registered = create(null)
    for (const [key, types] of entries(known)) registered[key] = types
    provided = []
  }
  reset()

  const parse = (text: string): MediaType => {
    const [range = '', ...parameters] = text.split(';').map((part) => part.trim())
    const [type = '', subtype = ''] = range.toLowerCase().split('/')
    const quality = parameters.find((parameter) => /^q\s*=/i.test(parameter))
    return {
      type,
      subtype,
      parameters: parameters.filter((parameter) => parameter !== quality).map((each) => each.toLowerCase()),
      quality: quality === undefined ? 1 : qualityOf(quality),
    }
  }

  const qualityOf = (parameter: string): number => {
    const quality = Number(parameter.slice(parameter.indexOf('=') + 1))
    return quality >= 0 && quality <= 1 ? quality : 1
  }

  const scoreOf = (media: MediaType, range: MediaType): number | undefined => {
    const isSameType = media.type === range.type
    const isSameSubtype = media.subtype === range.subtype
    if (!isSameType && range.type !== '*' && media.type !== '*') return undefined
    if (!isSameSubtype && range.subtype !== '*' && media.subtype !== '*' && range.type !== '*') return undefined
    const equal = range.parameters.filter((parameter) => media.parameters.includes(parameter))
    return (isSameType ? 100 : 0) + (isSameSubtype ? 10 : 0) + equal.length
  }

  const bestRange = (key: string, type: string, ranges: readonly MediaType[]): Candidate | undefined => {
    const media = parse(type)
    let best: Candidate | undefined
    for (const range of ranges) {
      const score = scoreOf(media, range)
      if (score === undefined) continue
      const { quality } = range
      if (best && (score < best.score || (score === best.score && quality <= best.quality))) continue
      best = { key, type, score, quality, isAny: range.type === '*' }
    }
    return best
  }

  /** The type that was registered last is taken of several that are as good, unless anything will do. */
  const isBetter = (one: Candidate, other: Candidate): boolean => {
    if (one.score !== other.score) return one.score > other.score
    if (one.quality !== other.quality) return one.quality > other.quality
    return one.key === other.key && !one.isAny
  }

  const byAccept = (accept: string): Candidate | undefined => {
    const ranges = accept.split(',').map(parse)
    let best: Candidate | undefined
    for (const { key } of provided) {
      for (const type of registered[key] ?? []) {
        const candidate = bestRange(key, type, ranges)
        if (candidate && (!best || isBetter(candidate, best))) best = candidate
      }
    }
    return best && best.quality > 0 ? best : undefined
  }

  const acceptOf = ({ headers }: NegotiatedRequest): string | undefined => {
    const accept = headers?.Accept
    return typeof accept === 'string' && accept !== '' ? accept : undefined
  }

  const chosen = (request: NegotiatedRequest): { readonly key: string; readonly type: string } | undefined => {
    const format = request.query?.format
    if (format !== undefined && format !== null && format !== '') {
      const key = `${format}`
      const types = registered[key]
      if (!types) throw failure('render_error', `the format option is set to an unknown type: ${key}`)
      return provided.some((each) => each.key === key) ? { key, type: types[0] ?? '' } : undefined
    }
    const accept = acceptOf(request)
    if (accept !== undefined) return byAccept(accept)
    const key = provided[0]?.key ?? ''
    return { key, type: registered[key]?.[0] ?? '' }
  }

  return {
    reset,
    get isUsed() {
      return provided.length > 0
    },
    provides(key, answer) {
      provided[provided.length] = { key: `${key}`, answer }
    },
    registerType(key, ...types) {
      registered[`${key}`] = types.map((type) => `${type}`)
    },
    choose(request) {
      const choice = chosen(request)
      const answer = choice && provided.find(({ key }) => key === choice.key)?.answer
      if (choice && answer) return { answer, type: choice.type }
      const types = provided.flatMap(({ key }) => registered[key] ?? [])
      const wanted = request.query?.format || acceptOf(request)
      throw failure('not_acceptable', `Content-Type ${wanted} not supported, try one of: ${types.join(', ')}`)
    },
  }
}
