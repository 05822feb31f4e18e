import { it } from 'vitest'
import { serverOfFile } from '../support/client.ts'
import { checkInterface } from './interface-model.ts'

const client = serverOfFile()

it('clients at the same time see one order of edits: 3,000 histories', async () => {
  await checkInterface(client(), { numRuns: 2_000, clients: 6, steps: 15 })
  await checkInterface(client(), { numRuns: 1_000, clients: 1, steps: 60 })
})
