/**
 * The lines in which a writing process says what it was promised: each is written, synchronously, after the promise
 * was given and never before. What is found after a crash is held against them.
 */
import { writeSync } from 'node:fs'

export type Acknowledgement =
  | { readonly kind: 'ready' }
  /** The store is there; `life` counts how often it was, for one that comes and goes. */
  | { readonly kind: 'created'; readonly name: string; readonly life?: number }
  | { readonly kind: 'dropped'; readonly name: string; readonly life: number }
  /** The nth commit of the writer is on disk. */
  | {
      readonly kind: 'committed'
      readonly name: string
      readonly writer: string
      readonly n: number
      readonly version: number
    }
  | { readonly kind: 'compacted'; readonly name: string }

const STANDARD_OUTPUT = 1

export function acknowledge(acknowledgement: Acknowledgement): void {
  writeSync(STANDARD_OUTPUT, `${JSON.stringify(acknowledgement)}\n`)
}

/** Leaves out a last line that the crash cut off. */
export function parseAcknowledgements(text: string): Acknowledgement[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line): Acknowledgement => JSON.parse(line))
}
