/**
 * Run as a process of its own: takes all reader slots of an LMDB file, as a crowd of readers would that are at different
 * states of it, and releases them on request.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { open } from 'lmdb'

const [, , path = ''] = process.argv
const database = open<string, string>(path, { noSubdir: true, encoding: 'string', noSync: true })
const taken: { done(): void }[] = []

try {
  for (;;) {
    // Readers of one state would share a slot.
    await database.put('~', String(taken.length))
    taken.push(database.useReadTransaction())
    // The library takes a new transaction in a later turn only.
    await nextTurn()
  }
} catch {
  process.send?.('taken')
}
process.once('message', async () => {
  for (const transaction of taken) transaction.done()
  await database.close()
  process.disconnect()
})
