/** Processes that are started before anybody calls a function. */
import { expect, it } from 'vitest'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { sandboxPids } from './sandbox-pids.ts'
import { emittedBy, functionsOfTest, mapsOf } from './test-functions.ts'

function startedSince(before: readonly number[]): number[] {
  return sandboxPids().filter((pid) => !before.includes(pid))
}

async function firstSince(before: readonly number[]): Promise<number[]> {
  await until(() => startedSince(before).length > 0)
  return startedSince(before)
}

it('one is at hand, and is the one that the first call gets', async () => {
  const before = sandboxPids()
  const functions = functionsOfTest()
  functions.prepare('javascript')
  const started = await firstSince(before)
  for (let time = 0; time < 5; time++) functions.prepare('javascript')
  expect(await emittedBy(functions, mapsOf('function(doc) { emit(1) }'), {})).toEqual([[1, null]])
  functions.prepare('javascript')
  expect(startedSince(before)).toEqual(started)
})

it('none is started for a language that is not spoken here, or when all is over', async () => {
  const before = sandboxPids()
  const functions = functionsOfTest()
  functions.prepare('erlang')
  await functions.close()
  functions.prepare('javascript')
  expect(startedSince(before)).toEqual([])
})

it('a server starts one when a design document with functions is written, and none before', async () => {
  const before = sandboxPids()
  const client = new Client((await startService({ inMemory: true })).url)
  const put = (path: string, body?: object) => client.request('PUT', path, body ? { body } : {})
  await put('/db')
  await put('/db/doc', { shows: {} })
  await put('/db/_design/views', { views: { all: { map: 'function(doc) { emit(doc._id) }' } } })
  await put('/db/_design/other', { language: 'erlang', shows: { x: 'fun(Doc, Req) -> <<"x">> end.' } })
  expect(startedSince(before)).toEqual([])
  await put('/db/_design/shows', { shows: { x: 'function() { return "shown" }' } })
  const started = await firstSince(before)
  expect((await client.request('GET', '/db/_design/shows/_show/x')).body.toString()).toBe('shown')
  expect(startedSince(before)).toEqual(started)
})
