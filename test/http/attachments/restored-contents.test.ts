import { randomBytes } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { framePieces, readFrames } from '../../../src/backup/frame.ts'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

/** With the first revision as much as one commit of a restore takes; none of it is committed before. */
const CONTENT_BYTES = 4_000_000
const TEXT = 'x'.repeat(200_000)

it('restores a content that several revisions share, also where they are in different commits', async () => {
  const { url } = await startService()
  const client = new Client(url)
  onTestFinished(() => client.close())
  const database = await client.database()
  const content = randomBytes(CONTENT_BYTES)
  const { rev } = await database.put('document/content', content, { 'Content-Type': 'application/octet-stream' })
  const { _attachments } = (await database.get('document')).as<{ _attachments: object }>()
  const hash = rev.slice(2)
  const revisions = ['a', 'b', 'c'].map((digit) => digit.repeat(32))
  for (const child of revisions) {
    const _revisions = { start: 2, ids: [child, hash] }
    await database.replicate({ _id: 'document', _rev: `2-${child}`, _revisions, text: TEXT, _attachments })
  }
  const backup = await restorable((await database.get('_backup')).body)
  const restored = await client.database()
  const reply = await restored.post('_restore', backup, { 'Content-Type': 'application/x-settle-backup' })
  expect(reply.status).toBe(201)
  for (const child of revisions) {
    const { status, body } = await restored.get(`document/content?rev=2-${child}`)
    expect({ status, isSame: body.equals(content) }).toEqual({ status: 200, isSame: true })
  }
})

/** The frames that `_restore` takes: the others say what the backup is of. */
async function restorable(backup: Buffer): Promise<Buffer> {
  async function* source() {
    yield backup
  }
  const pieces: Buffer[] = []
  for await (const frames of readFrames(source())) {
    for (const { kind, payload } of frames) {
      if (['content', 'bytes', 'revision', 'local'].includes(kind)) pieces.push(...framePieces(kind, payload))
    }
  }
  return Buffer.concat(pieces)
}
