/** Files that secondaries open while others commit to them: LMDB itself forgets commits then. */
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { runSettle } from '../commands/run-settle.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { lines, OpeningPrimary, openWhileWriting } from './opening-rounds.ts'

const LIMIT = { timeout: 180_000 }

it('no commit is forgotten while secondaries open databases and indexes', LIMIT, async () => {
  const dir = await temporaryFolder()
  const { writes, ...found } = await openWhileWriting(dir, 2, 100)
  expect(found).toEqual({ documents: writes, rows: writes, forgotten: 0 })
  expect(await runSettle(['check', '--dir', dir, '--quiet'])).toMatchObject({ code: 0 })
})

it('a commit waits while a secondary opens the database', LIMIT, async () => {
  await using primary = await OpeningPrimary.start(await temporaryFolder())
  await primary.send('PUT', 'other')
  const node = primary.node('hold:databases')
  await lines(node, 1)
  let isWritten = false
  const written = primary.send('PUT', 'db/second', {}).then(() => {
    isWritten = true
  })
  // Other databases are written meanwhile.
  await primary.send('PUT', 'other/document', {})
  expect(isWritten).toBe(false)
  const opened = lines(node, 1)
  node.stdin?.write('\n')
  await opened
  await written
})

it('an index process commits nothing while a secondary opens the index', LIMIT, async () => {
  await using primary = await OpeningPrimary.start(await temporaryFolder())
  const node = primary.node('hold:indexes')
  await lines(node, 1)
  let isUpdated = false
  await primary.send('PUT', 'db/second', {})
  const updated = primary.rowCount().then((count) => {
    isUpdated = true
    return count
  })
  await primary.send('PUT', 'db/third', {})
  expect(isUpdated).toBe(false)
  const opened = lines(node, 1)
  node.stdin?.write('\n')
  await opened
  expect(await updated).toBeGreaterThanOrEqual(2)
  expect(await primary.rowCount()).toBe(3)
})

it('a primary that closes waits for a secondary that opens the database', LIMIT, async () => {
  await using primary = await OpeningPrimary.start(await temporaryFolder())
  const node = primary.node('hold:databases')
  await lines(node, 1)
  const closed = primary.close().then(() => 'closed')
  // Much longer than it takes otherwise; on a loaded machine it only shows less.
  expect(await Promise.race([closed, pause(2000, 'open')])).toBe('open')
  const opened = lines(node, 1)
  node.stdin?.write('\n')
  await opened
  await closed
})

it('commits go on when a secondary dies while it opens the database', LIMIT, async () => {
  await using primary = await OpeningPrimary.start(await temporaryFolder())
  const node = primary.node('hold:databases')
  await lines(node, 1)
  const written = primary.send('PUT', 'db/second', {})
  node.kill('SIGKILL')
  await written
})

it('a secondary that is stopped while it opens the database is killed before commits go on', LIMIT, async () => {
  await using primary = await OpeningPrimary.start(await temporaryFolder(), 500)
  let isWritten = false
  const killed = new Promise<[string, boolean]>((resolve) => {
    primary.reports.onError = (message) => resolve([message, isWritten])
  })
  const node = primary.node('hold:databases')
  const ended = once(node, 'exit')
  await lines(node, 1)
  node.kill('SIGSTOP')
  const written = primary.send('PUT', 'db/second', {}).then(() => {
    isWritten = true
  })
  expect(await killed).toEqual(['A node did not open a file in time. It was killed.', false])
  expect(await ended).toEqual([null, 'SIGKILL'])
  await written
})
