/** The long form of `view-model.test.ts`: other cases each time. */
import { expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { checkQueries } from './view-queries.ts'

it.each([true, false])('any query of any documents agrees with a naive evaluation, in memory: %s', async (inMemory) => {
  const { url } = await startService({ inMemory })
  const client = new Client(url)
  await expect(checkQueries(() => client.database(), 500)).resolves.toBeUndefined()
  client.close()
})
