/** Counts the transactions that the servers of a test read in. */
import { onTestFinished, vi } from 'vitest'
import { Connection } from '../../src/storage/postgres/connection.ts'

export interface ReadTransactions {
  readonly now: number
  /** At the same time, since they are counted. */
  readonly most: number
}

/** From now on, to the end of the test. */
export function readTransactions(): ReadTransactions {
  const open = new Set<Connection>()
  let most = 0
  const { beginReading, leaveReading } = Connection.prototype
  const spies = [
    vi.spyOn(Connection.prototype, 'beginReading').mockImplementation(function (this: Connection) {
      most = Math.max(most, open.add(this).size)
      return beginReading.call(this)
    }),
    vi.spyOn(Connection.prototype, 'leaveReading').mockImplementation(function (this: Connection) {
      open.delete(this)
      leaveReading.call(this)
    }),
  ]
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore()
  })
  return {
    get now() {
      return open.size
    },
    get most() {
      return most
    },
  }
}
