import { expect, it } from 'vitest'
import type { SecondarySignal } from '../../src/nodes/node-message.ts'
import { WatchedDatabases } from '../../src/nodes/watched-databases.ts'

it('forgets a database that is deleted, and so does the primary', () => {
  const sent: SecondarySignal[] = []
  const watched = new WatchedDatabases((signal) => sent.push(signal))
  watched.watch('kept')
  watched.watch('gone')
  watched.deleted('gone')
  watched.deleted('never watched')
  expect(sent.splice(0)).toEqual([
    { kind: 'watch', databases: ['kept'] },
    { kind: 'watch', databases: ['gone'] },
    { kind: 'unwatch', databases: ['gone'] },
  ])
  watched.sendAll()
  // Another one has its name.
  watched.watch('gone')
  expect(sent).toEqual([
    { kind: 'watch', databases: ['kept'] },
    { kind: 'watch', databases: ['gone'] },
  ])
})
