/** Queries by selector against a plain evaluation. */
import { describe, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'
import { checkQueries } from './find-model.ts'

const client = serverOfFile()

describe('queries by selector', () => {
  it('agree with a plain evaluation', async () => {
    await checkQueries(client(), { runs: 2, selectors: 12 })
  })
})
