import { describe, expect, it } from 'vitest'
import type { ChangedDocument } from '../../../src/views/updating/changed-documents.ts'
import { DocumentMapping } from '../../../src/views/updating/mapped-documents.ts'
import { LocalFunctions } from '../local-functions.ts'

const PROGRAM = {
  key: 'test',
  language: 'javascript',
  library: undefined,
  maps: [{ source: 'function (doc) { emit(doc._id, null) }', collation: 'unicode' as const }],
}

function documents(count: number): ChangedDocument[] {
  return Array.from({ length: count }, (_, i) => {
    const id = `document ${i}`
    return { id: Buffer.from(id), quotedId: Buffer.from(`"${id}"`), text: Buffer.from(`{"_id":"${id}"}`) }
  })
}

/** Calls that end when the test says so. */
function heldCalls() {
  const functions = new LocalFunctions()
  const calls: { readonly documents: number; readonly end: (error?: Error) => void }[] = []
  functions.beforeMap = (count) =>
    new Promise((resolve, reject) => {
      calls.push({ documents: count, end: (error) => (error ? reject(error) : resolve()) })
    })
  return { calls, mapping: new DocumentMapping(functions, PROGRAM, { owner: 'test' }) }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise(setImmediate)
}

describe('documents', () => {
  it('are mapped before all of them are read', async () => {
    const { calls, mapping } = heldCalls()
    mapping.add(documents(300))
    await until(() => calls.length === 1)
    expect(calls[0]?.documents).toBe(250)
    const finished = mapping.finish()
    await until(() => calls.length === 2)
    expect(calls[1]?.documents).toBe(50)
    for (const { end } of calls) end()
    expect((await finished).map((call) => call.documents.length)).toEqual([250, 50])
  })

  it('come in their order, whichever call ends first', async () => {
    const { calls, mapping } = heldCalls()
    const all = documents(2000)
    for (let at = 0; at < all.length; at += 256) mapping.add(all.slice(at, at + 256))
    const finished = mapping.finish()
    for (let ended = 0; ended < 8; ended++) {
      await until(() => calls.length > 0)
      calls.pop()?.end()
      await new Promise(setImmediate)
    }
    const mapped = await finished
    expect(mapped.flatMap((call) => call.documents)).toEqual(all)
    expect(mapped.map(({ batch }) => batch.rows)).toEqual(Array.from({ length: 8 }, () => 250))
  })

  it('are mapped no further after a failure, which is reported when no call is running', async () => {
    const { calls, mapping } = heldCalls()
    mapping.add(documents(2500))
    await until(() => calls.length >= 2)
    const begun = calls.length
    expect(begun).toBeLessThan(10)
    let isReported = false
    const finished = mapping.finish().finally(() => {
      isReported = true
    })
    finished.catch(() => {})
    calls[0]?.end(new Error('failed'))
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    expect([isReported, calls.length]).toEqual([false, begun])
    for (const { end } of calls) end()
    await expect(finished).rejects.toThrow('failed')
    expect(calls.length).toBe(begun)
  })
})
