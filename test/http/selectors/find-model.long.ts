/** Queries by selector against a plain evaluation, for long. */
import { describe, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'
import { checkQueries } from './find-model.ts'

const client = serverOfFile()

describe('queries by selector', () => {
  it('agree with a plain evaluation of many', async () => {
    await checkQueries(client(), { runs: 20, selectors: 40 })
  })
})
