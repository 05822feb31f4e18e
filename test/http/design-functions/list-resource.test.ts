import { describe, expect, it } from 'vitest'
import { RequestError } from '../../../src/document/request-error.ts'
import type { ListOutput, ListRun } from '../../../src/functions/functions.ts'
import { listAnswer } from '../../../src/http/design-functions/list-resource.ts'
import type { Answer } from '../../../src/http/server/answer.ts'

const QUIET: ListOutput = { chunks: [], response: undefined, ended: false }

/** A list function that says what the test wants it to, and notes what it is asked. */
class NotedRun implements ListRun {
  readonly asked: string[] = []
  readonly begun: ListOutput
  readonly #outputs: (ListOutput | Error)[]

  constructor(begun: Partial<ListOutput>, ...outputs: (Partial<ListOutput> | Error)[]) {
    this.begun = { ...QUIET, ...begun }
    this.#outputs = outputs.map((each) => (each instanceof Error ? each : { ...QUIET, ...each }))
  }

  rows(rows: readonly string[]): Promise<ListOutput> {
    this.asked.push(`rows ${rows.join()}`)
    return this.#next()
  }

  end(): Promise<ListOutput> {
    this.asked.push('end')
    return this.#next()
  }

  abandon(): void {
    this.asked.push('abandon')
  }

  async #next(): Promise<ListOutput> {
    const output = this.#outputs.shift() ?? QUIET
    if (output instanceof Error) throw output
    return output
  }
}

async function* blocks(...all: string[][]): AsyncGenerator<string[]> {
  yield* all
}

function answerOf(run: ListRun, rows: AsyncIterable<string[]>, signal = new AbortController().signal) {
  const released: string[] = []
  const answer = listAnswer({ run, rows, fixed: { ETag: '"1"' }, signal, release: () => released.push('rows') })
  return { answer, released }
}

async function textOf(answer: Answer): Promise<string> {
  if (answer.kind !== 'streamed') throw new Error('A list is streamed.')
  let text = ''
  for await (const chunk of answer.chunks) text += chunk
  answer.release()
  return text
}

describe('the reply of a list function', () => {
  it('consists of what the function sends, in order', async () => {
    const run = new NotedRun({ chunks: ['a', 'b'] }, { chunks: ['c'] }, { chunks: [] }, { chunks: ['d'], ended: true })
    const { answer, released } = answerOf(run, blocks(['1', '2'], ['3']))
    expect(await textOf(await answer)).toBe('abcd')
    expect(run.asked).toEqual(['rows 1,2', 'rows 3', 'end', 'abandon'])
    expect(released).toEqual(['rows'])
  })

  it('is read no faster than the client drains it', async () => {
    const read: number[] = []
    async function* rows() {
      for (let i = 0; i < 100; i++) {
        read.push(i)
        yield [`${i}`]
      }
    }
    const run = new NotedRun({}, ...Array.from({ length: 100 }, () => ({ chunks: ['x'] })))
    const answer = await answerOf(run, rows()).answer
    expect(read).toEqual([0])
    if (answer.kind !== 'streamed') throw new Error('A list is streamed.')
    const chunks = answer.chunks[Symbol.asyncIterator]()
    await chunks.next()
    expect(read).toEqual([0])
    await chunks.next()
    expect(read).toEqual([0, 1])
    await chunks.return?.()
    answer.release()
    expect(read).toEqual([0, 1])
    expect(run.asked.at(-1)).toBe('abandon')
  })

  it('lets a function continue that waited for its text to be drained', async () => {
    const run = new NotedRun(
      { chunks: ['a'], isPaused: true },
      { chunks: ['b'] },
      { chunks: ['c'], isPaused: true },
      { chunks: ['d'], ended: true },
    )
    expect(await textOf(await answerOf(run, blocks(['1'], ['2'])).answer)).toBe('abcd')
    expect(run.asked).toEqual(['rows ', 'rows 1', 'rows ', 'abandon'])
  })

  it('reads no row for a function that requests none', async () => {
    let isRead = false
    async function* rows() {
      isRead = true
      yield ['1']
    }
    const run = new NotedRun({ chunks: ['a'], ended: true })
    expect(await textOf(await answerOf(run, rows()).answer)).toBe('a')
    expect([run.asked, isRead]).toEqual([['abandon'], false])
  })

  it('begins with the last head before the first text', async () => {
    const run = new NotedRun(
      { response: { code: 201 } },
      { response: { code: 202 }, chunks: ['a'] },
      { response: { code: 203 } },
    )
    const answer = await answerOf(run, blocks(['1'], ['2'])).answer
    const headers = { 'Content-Type': 'application/json', ETag: '"1"', 'X-Content-Type-Options': 'nosniff' }
    expect([answer.status, answer.headers]).toEqual([202, headers])
    expect(await textOf(answer)).toBe('a')
  })

  it('reports an error of the function in its text, with the status if that is not sent yet', async () => {
    const failure = new RequestError('forbidden', 'forbidden', 'No.')
    const told = '\n{"code":403,"error":"forbidden","reason":"No."}\n'
    const early = await answerOf(new NotedRun({}, failure), blocks(['1'])).answer
    expect([early.status, await textOf(early)]).toEqual([403, told])
    const late = await answerOf(new NotedRun({ chunks: ['a'] }, failure), blocks(['1'])).answer
    expect([late.status, await textOf(late)]).toEqual([200, `a${told}`])
  })

  it('aborts when the server fails, and releases everything', async () => {
    const failure = new Error('The disk is gone.')
    const early = new NotedRun({}, failure)
    const { answer, released } = answerOf(early, blocks(['1']))
    await expect(answer).rejects.toBe(failure)
    expect([early.asked.at(-1), released]).toEqual(['abandon', ['rows']])
    const late = await answerOf(new NotedRun({ chunks: ['a'] }, failure), blocks(['1'])).answer
    await expect(textOf(late)).rejects.toBe(failure)
  })

  it('ends quietly when the client is gone', async () => {
    const gone = new AbortController()
    const run = new NotedRun({ chunks: ['a'] }, new Error('The client is gone.'))
    const answer = await answerOf(run, blocks(['1']), gone.signal).answer
    gone.abort()
    expect(await textOf(answer)).toBe('a')
  })

  it('is refused where its head cannot be sent', async () => {
    const run = new NotedRun({ response: { headers: { 'X-A': 'a\nb' } }, chunks: ['a'] })
    const { answer, released } = answerOf(run, blocks(['1']))
    await expect(answer).rejects.toThrow('external_response_error')
    expect([run.asked, released]).toEqual([['abandon'], ['rows']])
  })
})
