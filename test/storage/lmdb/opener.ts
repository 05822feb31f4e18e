/** A process that opens a file on request, reads from it and closes it. Run: node opener.ts <path> */
import { LmdbEnvironment } from '../../../src/storage/lmdb/lmdb-environment.ts'

const [, , path = ''] = process.argv
process.on('disconnect', () => process.exit())
process.on('message', async () => {
  const environment = new LmdbEnvironment(path, { isShared: true, isReadOnly: true })
  process.send?.('opened')
  environment.reader.read((transaction) => environment.reader.get(transaction, Buffer.from('none')))
  await environment.close()
  process.send?.('closed')
})
