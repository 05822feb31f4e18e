/** Views of any documents, after any edits, asked anything, in memory and on disk. */
import { expect, it } from 'vitest'
import { Client, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { checkQueries } from './view-queries.ts'

const client = serverOfFile()

it('any query of any documents after any edits agrees with a naive evaluation', async () => {
  await expect(checkQueries(() => client().database(), 8)).resolves.toBeUndefined()
})

it('any query of any documents after any edits agrees with a naive evaluation on disk', async () => {
  const { url } = await startService()
  const onDisk = new Client(url)
  await expect(checkQueries(() => onDisk.database(), 3)).resolves.toBeUndefined()
  onDisk.close()
})
