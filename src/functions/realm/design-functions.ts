/** Calls the functions of a design document: filters, validation, shows, updates and lists. */

import type { Compile, UserFunction } from './compiler.ts'
import type { EmittedRows } from './emitted-rows.ts'
import type { Failures } from './failure.ts'
import { MARKS, type Outcome } from './interface.ts'
import type { NegotiatedRequest, Negotiation } from './negotiation.ts'
import type { Output, Response } from './output.ts'
import type { Slices } from './slices.ts'
import type { ThrownValues } from './thrown.ts'

export interface DesignFunctions {
  /** This is the design document from now on. */
  use(id: string, design: DesignDocument): void
  filter(name: string, documents: readonly unknown[], request: unknown): Outcome
  filterByView(view: string, documents: readonly unknown[]): Outcome
  validate(writes: readonly (readonly unknown[])[]): Outcome
  show(name: string, document: unknown, request: ShowRequest): Outcome
  update(name: string, document: unknown, request: unknown): Outcome
  list(name: string, head: unknown, request: NegotiatedRequest): Outcome
}

export interface DesignDocument {
  readonly [member: string]: unknown
}

export interface ShowRequest extends NegotiatedRequest {
  readonly id?: unknown
}

export function realmDesignFunctions(
  { failure }: Failures,
  compile: Compile,
  thrown: ThrownValues,
  slices: Slices,
  output: Output,
  negotiation: Negotiation,
  { emits }: EmittedRows,
): DesignFunctions {
  const { done, endOfResult } = MARKS
  const { stringify } = JSON
  const { hasOwn, create, keys: namesOf } = Object
  const { isArray } = Array
  const { apply } = Reflect
  const text = String

  let id = ''
  let design: DesignDocument = {}
  let compiled: Record<string, UserFunction> = create(null)

  const sourceAt = (path: readonly string[]): string | undefined => {
    let value: unknown = design
    for (const name of path) {
      if (typeof value !== 'object' || value === null || !hasOwn(value, name)) return undefined
      value = (value as DesignDocument)[name]
    }
    return typeof value === 'string' ? value : undefined
  }

  const functionAt = (path: readonly string[], missing: string): UserFunction => {
    const source = sourceAt(path)
    if (source === undefined) throw failure('not_found', missing)
    const name = stringify(path)
    compiled[name] ??= compile(source)
    return compiled[name]
  }

  const renderer = (kind: 'shows' | 'lists' | 'updates', name: string): UserFunction =>
    functionAt([kind, name], `missing ${kind} function ${name} on design doc ${id}`)

  const isObject = (value: unknown): value is Response => typeof value === 'object' && value !== null && !isArray(value)

  const asResponse = (value: unknown, kind: string): Response => {
    if (typeof value === 'string') return { body: value }
    if (isObject(value)) return { ...value }
    throw failure('render_error', `undefined response from ${kind} function`)
  }

  const asShowResponse = (value: unknown): Response => (value ? asResponse(value, 'show') : {})

  const bodyOf = ({ body }: Response): string => (body === undefined ? '' : text(body))

  /** What `start` was given in a show: a map of headers, unless it looks like a response. */
  const startedResponse = (): Response => {
    const { head = {} } = output
    return 'headers' in head || 'code' in head ? head : { headers: head }
  }

  /** The second one wins. */
  const merged = (one: Response, other: Response): Response => {
    if (!one.headers && !other.headers) return { ...one, ...other }
    return { ...one, ...other, headers: { ...(one.headers as object), ...(other.headers as object) } }
  }

  const withType = (response: Response, type: string): Response => {
    const headers = (response.headers ?? {}) as Response
    if (namesOf(headers).some((name) => name.toLowerCase() === 'content-type')) return response
    return { ...response, headers: { 'Content-Type': type, ...headers } }
  }

  /** Text that was gathered anywhere prevails over what else the chosen function answers with. */
  const negotiatedResponse = (response: Response, sent: string, request: NegotiatedRequest): Response => {
    const { answer, type } = negotiation.choose(request)
    const answered = asShowResponse(apply(answer, design, []))
    const body = sent + bodyOf(response) + output.take() + bodyOf(answered)
    const started = output.hasSent ? startedResponse() : {}
    const { body: _, json, base64, ...others } = merged(merged(response, started), answered)
    if (body === '' && json !== undefined) return withType({ ...others, json }, type)
    if (body === '' && base64 !== undefined) return withType({ ...others, base64 }, type)
    return withType({ ...others, body }, type)
  }

  const shownResponse = (show: UserFunction, document: unknown, request: ShowRequest): Response => {
    const response = asShowResponse(apply(show, design, [document, request]))
    const sent = output.take()
    if (negotiation.isUsed) return negotiatedResponse(response, sent, request)
    if (!output.hasSent) return response
    return { ...merged(response, startedResponse()), body: sent + bodyOf(response) }
  }

  return {
    use(givenId, givenDesign) {
      id = givenId
      design = givenDesign
      compiled = create(null)
    },

    filter(name, documents, request) {
      const filter = functionAt(['filters', name], `missing json key: ${name}`)
      return slices.gather(documents.length, (index) => {
        try {
          return apply(filter, design, [documents[index], request]) ? '1' : '0'
        } catch (error) {
          return thrown.plain(error)
        }
      })
    },

    filterByView(view, documents) {
      const map = functionAt(['views', view, 'map'], `missing json key: ${view}`)
      return slices.gather(documents.length, (index) => {
        try {
          return emits(() => map(documents[index])) ? '1' : '0'
        } catch (error) {
          return thrown.plain(error)
        }
      })
    },

    validate(writes) {
      const path = ['validate_doc_update']
      const validate: UserFunction = sourceAt(path) === undefined ? () => {} : functionAt(path, '')
      return slices.gather(writes.length, (index) => {
        try {
          apply(validate, design, writes[index] as unknown[])
          return `null${endOfResult}`
        } catch (error) {
          return thrown.verdict(error) + endOfResult
        }
      })
    },

    show(name, document, request) {
      const show = renderer('shows', name)
      output.begin('show')
      negotiation.reset()
      try {
        return [done, stringify(shownResponse(show, document, request))]
      } catch (error) {
        const isMissing = document === null && typeof request.id === 'string'
        return isMissing ? thrown.error('not_found', 'document not found') : thrown.rendering(error)
      } finally {
        output.end()
      }
    },

    update(name, document, request) {
      const update = renderer('updates', name)
      try {
        const result = apply(update, design, [document, request])
        const [changed, answer]: readonly unknown[] = isArray(result) && result.length === 2 ? result : []
        const response = asResponse(answer, 'update')
        return [done, (isObject(changed) ? stringify(changed) : 'null') + endOfResult + stringify(response)]
      } catch (error) {
        return thrown.rendering(error)
      }
    },

    list(name, head, request) {
      const list = renderer('lists', name)
      output.begin('list')
      negotiation.reset()
      try {
        let tail = apply(list, design, [head, request])
        if (negotiation.isUsed) {
          const { answer, type } = negotiation.choose(request)
          output.useType(type)
          tail = apply(answer, design, [])
        }
        return [done, output.last(tail)]
      } catch (error) {
        output.flush()
        return thrown.rendering(error)
      } finally {
        output.end()
      }
    },
  }
}
