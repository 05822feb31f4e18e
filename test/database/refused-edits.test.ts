/** Edits whose attachments could not be found are refused if they would be stored, and ignored otherwise. */
import { expect, it } from 'vitest'
import { conflict, missingStub } from '../../src/document/request-error.ts'
import { memoryDatabase, put, remove, replicated, written } from './test-database.ts'

it('an edit without its attachments is a conflict even when the conflicting revision is gone', async () => {
  const { database } = await memoryDatabase()
  const refusal = conflict()
  const [live] = await written(database.write([put('a', {})]))
  const edit = { ...put('a', { n: 2 }), refusal }
  expect(await database.write([edit])).toEqual([{ outcome: 'refused', error: refusal }])
  await written(database.write([remove('a', live ?? '')]))
  expect(await database.write([edit])).toEqual([{ outcome: 'refused', error: refusal }])
  expect(await database.write([{ ...put('new', {}), refusal }])).toEqual([{ outcome: 'refused', error: refusal }])
})

it('a revision of another server that is known needs no attachments, and is refused without them when it is not', async () => {
  const { database } = await memoryDatabase()
  const edit = replicated('a', { start: 2, hashes: ['two', 'one'] }, {})
  const refusal = missingStub('missing')
  expect(await database.write([{ ...edit, refusal }])).toEqual([{ outcome: 'refused', error: refusal }])
  await written(database.write([edit]))
  const longer = { ...edit, path: { start: 3, hashes: ['two', 'one'] } }
  await written(database.write([{ ...edit, refusal }]))
  expect(await database.write([{ ...longer, refusal }])).toEqual([{ outcome: 'refused', error: refusal }])
})
