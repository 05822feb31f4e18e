/**
 * The pipes of a sandbox process, read and written synchronously: it does one thing at a time, and a list function must be
 * able to wait for rows in the middle of its run. `process.stdin` and `process.stdout` stay untouched, since they would make
 * the pipes non-blocking.
 */
import { readSync, writeSync } from 'node:fs'
import { encodeFrame, type Frame, HEADER_BYTES } from '../frame.ts'

const INPUT = 0
const OUTPUT = 1

/** Waits for a frame; undefined when the server is gone. */
export function receive(): Frame | undefined {
  const header = readBytes(HEADER_BYTES)
  if (!header) return undefined
  const body = readBytes(header.readUInt32LE(0) + 4 - HEADER_BYTES)
  return body && { kind: header[4] ?? 0, number: header.readUInt32LE(5), body }
}

export function send(kind: number, number: number, parts: readonly Uint8Array[]): void {
  const frame = encodeFrame(kind, number, parts)
  for (let at = 0; at < frame.length; ) at += writeSync(OUTPUT, frame, at)
}

export function sendText(kind: number, text: string): void {
  send(kind, 0, [Buffer.from(text)])
}

function readBytes(length: number): Buffer | undefined {
  const bytes = Buffer.allocUnsafe(length)
  for (let at = 0; at < length; ) {
    const count = readSync(INPUT, bytes, at, length - at, null)
    if (count === 0) return undefined
    at += count
  }
  return bytes
}
