/** The body of a request: read up to a limit, unpacked, and checked for what it must be. */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { badRequest, invalidJson, RequestError, tooLarge } from '../document/request-error.ts'
import { JsonTextError } from '../encoding/json-text.ts'
import { isObject } from '../encoding/json-value.ts'
import { GrowingBuffer } from '../wire/growing-buffer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { requestSettings } from './request-settings.ts'
import { valueIn } from './scan/json-body.ts'

/** The bytes of a JSON body. */
export async function readJsonText(call: Call, { configuration }: HttpContext): Promise<Buffer> {
  return readBytes(call, requestSettings(configuration).largestBody)
}

/** A JSON body of parameters. */
export async function readJson(call: Call, context: HttpContext): Promise<unknown> {
  const text = await readJsonText(call, context)
  return valueIn(text, requestSettings(context.configuration).mostItems)
}

/** A JSON body that must be an object. */
export async function readJsonObject(call: Call, context: HttpContext): Promise<Record<string, unknown>> {
  const value = await readJson(call, context)
  if (!isObject(value)) throw badRequest('Request body must be a JSON object')
  return value
}

export function parsing<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (error instanceof JsonTextError) throw invalidJson()
    throw error
  }
}

/** Where a body must say that it is JSON. */
export function requireJsonType(call: Call): void {
  const [type = ''] = (call.header('content-type') ?? '').split(';')
  if (type.trim().toLowerCase() !== 'application/json') {
    throw new RequestError(415, 'bad_content_type', 'Content-Type must be application/json')
  }
}

const unpack = promisify(gunzip)

/** All of a body, unpacked; up to a limit. */
export async function readBytes(call: Call, largest: number): Promise<Buffer> {
  const limit = Math.min(largest, call.largestBody)
  const encoding = call.header('content-encoding')?.trim().toLowerCase() ?? 'identity'
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw new RequestError(
      415,
      'bad_content_type',
      `${call.header('content-encoding')} is not a supported content encoding.`,
    )
  }
  const bytes = await receive(call, limit)
  if (encoding === 'identity') return bytes
  try {
    return await unpack(bytes, { maxOutputLength: limit })
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge()
    throw badRequest('The body is not what its Content-Encoding says.')
  }
}

async function receive(call: Call, limit: number): Promise<Buffer> {
  checkLength(call, limit)
  const bytes = await call.request.body.collect(limit)
  if (!bytes) throw tooLarge()
  return bytes
}

/** The body as it comes in. */
export function bodyPieces(call: Call): AsyncGenerator<Buffer> {
  const limit = call.largestBody
  checkLength(call, limit)
  const pieces = call.request.body.read()
  return limit === Number.POSITIVE_INFINITY ? pieces : upTo(limit, pieces)
}

async function* upTo(limit: number, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > limit) throw tooLarge()
    yield piece
  }
}

/** What says itself that it is too large is not read. */
function checkLength({ request: { headers } }: Call, limit: number): void {
  if (Number(headers['content-length'] ?? 0) > limit) throw tooLarge()
}

/** All of it, up to a limit. */
export async function collect(source: AsyncIterable<Buffer>, limit: number): Promise<Buffer> {
  const all = new GrowingBuffer()
  for await (const piece of source) {
    if (all.length + piece.length > limit) throw tooLarge()
    all.add(piece)
  }
  return all.bytes()
}
