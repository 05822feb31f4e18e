/**
 * The pipes of a sandbox process, read and written synchronously: a list function must be able to wait for rows in the middle
 * of its run. `process.stdin` and `process.stdout` are not touched, since they would make the pipes non-blocking.
 */
import { readSync, writeSync, writevSync } from 'node:fs'
import { type Frame, frameHeader, HEADER_BYTES } from '../sandbox/frame.ts'

const INPUT = 0
const OUTPUT = 1
const MOST_KEPT_BYTES = 1024 * 1024

const header = Buffer.alloc(HEADER_BYTES)
let room = Buffer.allocUnsafe(64 * 1024)

/** Waits for a frame; undefined when the server is gone. Its bytes are there until the next one is asked for. */
export function receive(): Frame | undefined {
  if (!fill(header)) return undefined
  const length = header.readUInt32LE(0) + 4 - HEADER_BYTES
  if (length > room.length || room.length > MOST_KEPT_BYTES) room = Buffer.allocUnsafe(length)
  const body = room.subarray(0, length)
  return fill(body) ? { kind: header[4] ?? 0, number: header.readUInt32LE(5), body } : undefined
}

export function send(kind: number, parts: readonly Uint8Array[]): void {
  const all = [frameHeader(kind, 0, parts), ...parts]
  let left = writevSync(OUTPUT, all)
  // Pipes take what they have room for.
  for (const part of all) {
    for (let at = Math.min(left, part.length); at < part.length; ) at += writeSync(OUTPUT, part, at)
    left = Math.max(0, left - part.length)
  }
}

export function sendText(kind: number, text: string): void {
  send(kind, [Buffer.from(text)])
}

/** Whether all of it came. */
function fill(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length; ) {
    const count = readSync(INPUT, bytes, at, bytes.length - at, null)
    if (count === 0) return false
    at += count
  }
  return true
}
