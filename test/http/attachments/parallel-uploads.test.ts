import { createHash, randomBytes } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const BINARY = { 'Content-Type': 'application/octet-stream' }
/** Less than a chunk, a few chunks, and more than waits for the commit of the document. */
const SIZES = [100_000, 700_000, 5_000_000, 7_500_000]
const ROUNDS = 2

it('keeps the bytes of uploads apart that share buffers, one after the other and concurrently', async () => {
  const { url } = await startService()
  const client = new Client(url)
  onTestFinished(() => client.close())
  const database = await client.database()
  const digests = new Map<string, string>()
  for (let round = 0; round < ROUNDS; round++) {
    const uploads = SIZES.flatMap((size, i) =>
      ['', '?batch=ok'].map(async (query, j) => {
        const content = randomBytes(size)
        const path = `document-${round}-${i}-${j}/content`
        const { status } = await database.put(path + query, content, BINARY)
        expect(status).toBe(query === '' ? 201 : 202)
        digests.set(path, digestOf(content))
      }),
    )
    // One that is refused after its bytes were sent: nothing else may get them.
    const refused = database.put(`document-0-0-0/content?rev=1-${'0'.repeat(32)}`, randomBytes(3_000_000), BINARY)
    expect((await refused).status).toBe(409)
    await Promise.all(uploads)
  }
  await database.post('_ensure_full_commit', '')
  for (const [path, digest] of digests) expect(digestOf((await database.get(path)).body), path).toBe(digest)
})

function digestOf(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('base64')
}
