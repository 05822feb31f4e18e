/** The head of a reply, as text. Whatever could end a line early is refused here, whoever wrote it. */
import { STATUS_CODES } from 'node:http'
import { isHeaderName, isHeaderValue } from './header-text.ts'
import type { Refusal } from './refusal.ts'

/** The line of a header. */
export function headerLine(name: string, value: string): string {
  if (!isHeaderName(name) || !isHeaderValue(value))
    throw new Error(`The header ${JSON.stringify(name)} cannot be sent.`)
  return `${name}: ${value}\r\n`
}

/** All of the reply to bytes that are no request. What its client accepts is not known. */
export function refusalReply({ status, error, message }: Refusal, headerLines: string): string {
  const body = error === undefined ? '' : `${JSON.stringify({ error, reason: message })}\n`
  const type = body === '' ? '' : 'Cache-Control: must-revalidate\r\nContent-Type: text/plain;charset=utf-8\r\n'
  const head = `${statusLine(status)}${headerLines}${dateLine()}${type}Connection: close\r\n`
  return `${head}Content-Length: ${body.length}\r\n\r\n${body}`
}

export function statusLine(status: number): string {
  const known = statusLines.get(status)
  if (known !== undefined) return known
  const line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`
  statusLines.set(status, line)
  return line
}

/** At most one for each number of three digits. */
const statusLines = new Map<number, string>()

/** The line of this moment's date, made once a second. */
export function dateLine(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== lastDate.second) lastDate = { second, line: `Date: ${new Date(second * 1000).toUTCString()}\r\n` }
  return lastDate.line
}

let lastDate = { second: 0, line: '' }
