/** User functions run right here, without a sandbox: quick, and they count what is asked of them. */

import type { Functions, MapProgram, ReduceInput, ReduceProgram } from '../../src/functions/functions.ts'
import { EmittedRows } from '../../src/functions/query-servers/query-server-replies.ts'

type Emit = (key: unknown, value?: unknown) => void

export class LocalFunctions implements Functions {
  /** How many documents were mapped, how many rows reduced and how many reductions reduced again. */
  readonly counts = { mapped: 0, reduced: 0, rereduced: 0 }
  /** Called before so many documents are mapped; may reject. */
  beforeMap: (documents: number) => Promise<void> = async () => {}

  async map({ maps }: MapProgram, documents: readonly Uint8Array[]) {
    await this.beforeMap(documents.length)
    this.counts.mapped += documents.length
    const rows = new EmittedRows()
    for (const [document, text] of documents.entries()) {
      const parsed: unknown = JSON.parse(Buffer.from(text).toString())
      for (const [map, { source, collation }] of maps.entries()) {
        const emitted = emittedBy(source, parsed).map(([key, value]) => ({
          key: jsonBytes(key),
          value: jsonBytes(value),
        }))
        rows.add(document, map, emitted, collation)
      }
    }
    return rows.batch()
  }

  async reduce({ source }: ReduceProgram, groups: readonly (readonly ReduceInput[])[]) {
    return groups.map((rows) => {
      this.counts.reduced += rows.length
      const keys = rows.map(({ key, id }) => [JSON.parse(key), id])
      return reducedBy(
        source,
        keys,
        rows.map(({ value }) => JSON.parse(value)),
        false,
      )
    })
  }

  async rereduce({ source }: ReduceProgram, groups: readonly (readonly string[])[]) {
    return groups.map((values) => {
      this.counts.rereduced += values.length
      return reducedBy(
        source,
        null,
        values.map((value) => JSON.parse(value)),
        true,
      )
    })
  }

  filter = unused
  filterByView = unused
  validate = unused
  show = unused
  update = unused
  list = unused

  prepare(): void {}

  async close(): Promise<void> {}
}

/** What a map function makes of a document; nothing when it throws. */
export function emittedBy(source: string, document: unknown): [key: unknown, value: unknown][] {
  const emitted: [unknown, unknown][] = []
  const emit: Emit = (key, value) => emitted.push([key ?? null, value ?? null])
  try {
    new Function('emit', `return (${source})`)(emit)(document)
    return emitted
  } catch {
    return []
  }
}

export function reducedBy(source: string, keys: unknown, values: readonly unknown[], rereduce: boolean): string {
  return JSON.stringify(new Function(`return (${source})`)()(keys, values, rereduce) ?? null)
}

function jsonBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

async function unused(): Promise<never> {
  throw new Error('Views do not call this.')
}
