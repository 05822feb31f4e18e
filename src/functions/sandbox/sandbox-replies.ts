/** Parses the replies of sandbox processes. User code could change them, so they are validated. */
import { type ErrorKind, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { functionError, reasonText } from '../function-error.ts'
import { type FunctionResponse, type ListOutput, MAPPED_FIELDS, type MappedBatch } from '../functions.ts'
import { type Frame, Reply } from './frame.ts'
import type { ProcessEnd, SandboxProcess } from './sandbox-process.ts'

/** Ends each part of a reply that has several. */
export const END_OF_PART = '\u0002'

const TRUE = 0x31

/** The result of a call; throws what the call failed with. */
export function resultOf(frame: Frame, sandbox: SandboxProcess): Buffer {
  if (frame.kind !== Reply.result) throw errorOf(frame, sandbox)
  return frame.body
}

/** What a list function gave. */
export function outputOf(frame: Frame, sandbox: SandboxProcess): ListOutput {
  if (frame.kind !== Reply.result && frame.kind !== Reply.output) throw errorOf(frame, sandbox)
  const output = jsonIn(frame.body.toString())
  if (!isObject(output) || typeof output.chunks !== 'string') throw spoiled()
  const { chunks, response, isPaused } = output
  return {
    chunks: chunks === '' ? [] : [chunks],
    response: isObject(response) ? response : undefined,
    isPaused: isPaused === true,
    ended: frame.kind === Reply.result,
  }
}

export function processError({ cause, status }: ProcessEnd): RequestError {
  const reason = cause === 'time' ? 'OS process timed out.' : `{exit_status,${status}}`
  return new RequestError('failed', 'os_process_error', reason)
}

export function spoiled(): RequestError {
  return new RequestError('failed', 'os_process_error', 'A function corrupted its own result.')
}

export function mappedBatch(body: Buffer): MappedBatch {
  const rows = body.length < 4 ? 0 : body.readUInt32LE(0)
  const end = 4 + rows * MAPPED_FIELDS * Uint32Array.BYTES_PER_ELEMENT
  if (end > body.length) throw spoiled()
  // Buffers begin at multiples of eight.
  const fields = new Uint32Array(body.buffer, body.byteOffset + 4, rows * MAPPED_FIELDS)
  return { rows, fields, block: body.subarray(end) }
}

export function booleans(body: Buffer, count: number): boolean[] {
  if (body.length !== count) throw spoiled()
  return Array.from(body, (byte) => byte === TRUE)
}

export function textParts(body: Buffer, count: number): string[] {
  const parts = body.toString().split(END_OF_PART)
  if (parts.pop() !== '' || parts.length !== count) throw spoiled()
  return parts
}

/** What a write is refused with, unless it passes. */
export function verdict(text: string): RequestError | undefined {
  const reported = jsonIn(text)
  if (reported === null) return undefined
  if (!isObject(reported) || typeof reported.id !== 'string') throw spoiled()
  return new RequestError(refusalKind(reported.id), reported.id, reasonText(reported.reason), reported.reason)
}

export function responseIn(text: string): FunctionResponse {
  const response = jsonIn(text)
  if (!isObject(response)) throw spoiled()
  return response
}

function errorOf({ kind, body }: Frame, sandbox: SandboxProcess): RequestError {
  const reported = kind === Reply.error ? jsonIn(body.toString()) : undefined
  if (!isObject(reported) || typeof reported.id !== 'string') {
    sandbox.kill('fatal')
    return spoiled()
  }
  if (reported.isFatal === true) sandbox.kill('fatal')
  return functionError(reported.id, reported.reason)
}

function refusalKind(id: string): ErrorKind {
  return id === 'forbidden' || id === 'unauthorized' ? id : 'failed'
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw spoiled()
  }
}
