/**
 * A command that opens the file of a database beside a running server: it writes a line when it may open it, and waits for a line
 * before it does. Run: node opening-command.ts <data folder> <database>.
 */
import { readSync, writeSync } from 'node:fs'
import { OpeningClient } from '../../src/cluster/opening-socket.ts'
import { listStores } from '../../src/storage/files/store-listing.ts'
import { BorrowedStores } from '../../src/storage/leases/borrowed-stores.ts'

const [, , folder = '', database = ''] = process.argv
const client = new OpeningClient(folder)
const place = (await listStores(folder)).find(({ name }) => name === database)
if (!place) throw new Error('There is no such database.')
const files = new BorrowedStores({ isReadOnly: true })
const reply = await client.open('databases', place, () => {
  writeSync(1, 'holds\n')
  readSync(0, Buffer.alloc(1))
  return files.open(place.name, place.path)
})
writeSync(1, typeof reply === 'string' ? `${reply}\n` : 'opened\n')
if (typeof reply !== 'string') await reply.opened[Symbol.asyncDispose]()
client.close()
