/** User functions to test with: short limits, a log that is kept, and little to write for a call. */
import { onTestFinished } from 'vitest'
import { createFunctions } from '../../src/functions/create-functions.ts'
import type { FunctionSettings } from '../../src/functions/function-settings.ts'
import {
  type DesignProgram,
  type Functions,
  MAPPED_FIELDS,
  type MapProgram,
  type MappedBatch,
} from '../../src/functions/functions.ts'
import { type Log, silentLog } from '../../src/runtime/log/log.ts'

export const run = { owner: 'test' }

export interface TestFunctions extends Functions {
  /** Lines at level `info`. */
  readonly lines: string[]
  /** Why processes ended that did not just become idle. */
  readonly causes: string[]
  /** Changes settings; they count from the next call on. */
  change(settings: Partial<FunctionSettings>): void
}

export function testFunctions(settings: Partial<FunctionSettings> = {}): TestFunctions {
  const lines: string[] = []
  const causes: string[] = []
  const log: Log = {
    ...silentLog,
    info: (line) => lines.push(line),
    warn: (_, details) => causes.push(String(details && 'cause' in details && details.cause)),
  }
  const defaults = { timeoutMs: 5000, reduceLimit: true, processLimit: 2, isolateMemoryMb: 128, processMemoryMb: 700 }
  let current: FunctionSettings = { ...defaults, ...settings }
  const change = (changed: Partial<FunctionSettings>) => {
    current = { ...current, ...changed }
  }
  return Object.assign(createFunctions({ settings: () => current, log }), { lines, causes, change })
}

/** Closed when the test is over. */
export function functionsOfTest(settings: Partial<FunctionSettings> = {}): TestFunctions {
  const functions = testFunctions(settings)
  onTestFinished(() => functions.close())
  return functions
}

let programs = 0

/** In an isolate of its own. */
export function mapsOf(...sources: string[]): MapProgram {
  return withLibrary(undefined, ...sources)
}

export function withLibrary(library: unknown, ...sources: string[]): MapProgram {
  return {
    key: `program ${programs++}`,
    language: 'javascript',
    library: library === undefined ? undefined : JSON.stringify(library),
    maps: sources.map((source) => ({ source, collation: 'unicode' })),
  }
}

/** In an isolate of its own. */
export function designOf(members: object): DesignProgram {
  return {
    id: '_design/test',
    key: `design ${programs++}`,
    language: 'javascript',
    text: JSON.stringify({ _id: '_design/test', ...members }),
  }
}

export interface TestRow {
  readonly document: number
  readonly map: number
  readonly key: unknown
  readonly value: unknown
}

export function rowsOf({ rows, fields, block }: MappedBatch): TestRow[] {
  return Array.from({ length: rows }, (_, row) => {
    const [document = 0, map = 0, , , keyAt, valueAt, end] = fields.subarray(row * MAPPED_FIELDS)
    return {
      document,
      map,
      key: JSON.parse(block.toString('utf8', keyAt, valueAt)),
      value: JSON.parse(block.toString('utf8', valueAt, end)),
    }
  })
}

/** Key and value of all rows that the functions give for the documents. */
export async function emittedBy(
  functions: Functions,
  program: MapProgram,
  ...documents: object[]
): Promise<[key: unknown, value: unknown][]> {
  const texts = documents.map((document) => Buffer.from(JSON.stringify(document)))
  return rowsOf(await functions.map(program, texts, run)).map(({ key, value }) => [key, value])
}

/** What a call of a show function answers with. */
export function shown(
  functions: Functions,
  source: string,
  { document = { _id: 'a' }, request = {} }: { document?: object | null; request?: object } = {},
) {
  const call = { document: JSON.stringify(document), request: JSON.stringify(request) }
  return functions.show(designOf({ shows: { test: source } }), 'test', call, run)
}

/** What an expression is inside the sandbox. */
export async function inside(functions: Functions, expression: string): Promise<unknown> {
  const { json } = await shown(functions, `function () { return { json: { value: (${expression}) } } }`)
  return (json as { value?: unknown }).value
}
