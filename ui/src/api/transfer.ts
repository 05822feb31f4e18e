/** Export and import of databases as JSON lines, in pages and batches. Documents stay text. */
import { arrayItems, memberText, withoutMembers } from '../json/json-text.ts'
import { path, requestJson, requestText } from './client.ts'

const PAGE = 500
const BATCH_DOCUMENTS = 500
const BATCH_CHARACTERS = 4 * 1024 * 1024

/** One document a line. Attachments are not included. */
export async function* exportLines(
  database: string,
  signal: AbortSignal,
): AsyncGenerator<{ text: string; count: number }> {
  let from: string | undefined
  while (true) {
    const text = await requestText(`${path(database)}/_all_docs`, {
      signal,
      query: { include_docs: true, limit: PAGE + 1, startkey: from === undefined ? undefined : JSON.stringify(from) },
    })
    const rows = arrayItems(memberText(text, 'rows') ?? '[]')
    const lines = rows.slice(0, PAGE).map((row) => `${memberText(row, 'doc') ?? 'null'}\n`)
    yield { text: lines.join(''), count: lines.length }
    const next = rows[PAGE]
    if (next === undefined) return
    from = JSON.parse(memberText(next, 'id') ?? '""')
  }
}

export interface ImportState {
  readonly doneBytes: number
  readonly written: number
  readonly failures: readonly string[]
}

interface BulkEntry {
  readonly id?: string
  readonly error?: string
  readonly reason?: string
}

const MOST_FAILURES = 100

/** Revisions in the file are dropped: documents are created, or conflict with existing ones. */
export async function* importLines(database: string, file: File, signal: AbortSignal): AsyncGenerator<ImportState> {
  let state: ImportState = { doneBytes: 0, written: 0, failures: [] }
  let batch: string[] = []
  let characters = 0
  const send = async (): Promise<void> => {
    if (batch.length === 0) return
    const entries = await requestJson<BulkEntry[]>(`${path(database)}/_bulk_docs`, {
      method: 'POST',
      signal,
      jsonText: `{"docs":[${batch.join(',')}]}`,
    })
    const failed = entries.flatMap(({ id, error, reason }) => (error ? [`${id}: ${reason ?? error}`] : []))
    state = {
      ...state,
      written: state.written + batch.length - failed.length,
      failures: [...state.failures, ...failed].slice(0, MOST_FAILURES),
    }
    batch = []
    characters = 0
  }
  for await (const { line, doneBytes } of linesOf(file)) {
    signal.throwIfAborted()
    state = { ...state, doneBytes }
    if (line.trim() === '') continue
    const text = withoutMembers(line, ['_rev', '_attachments', '_revisions'])
    batch.push(text)
    characters += text.length
    if (batch.length < BATCH_DOCUMENTS && characters < BATCH_CHARACTERS) continue
    await send()
    yield state
  }
  await send()
  yield { ...state, doneBytes: file.size }
}

async function* linesOf(file: File): AsyncGenerator<{ line: string; doneBytes: number }> {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let doneCharacters = 0
  while (true) {
    const { done, value } = await reader.read()
    if (done) break
    doneCharacters += value.length
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield { line, doneBytes: Math.min(doneCharacters, file.size) }
  }
  yield { line: rest, doneBytes: file.size }
}
