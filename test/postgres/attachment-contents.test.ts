import { expect, it, onTestFinished } from 'vitest'
import { AttachmentStore, attachmentRange } from '../../src/database/attachments/attachment-store.ts'
import { PostgresEngine } from '../../src/storage/postgres/postgres-engine.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { readTransactions } from '../support/read-transactions.ts'

/** A store with two attachments, and a connection for reading. */
async function stored() {
  const engine = await PostgresEngine.open({ address: (await sharedPostgres()).address(), readConnections: 1 })
  onTestFinished(() => engine.close())
  const store = await engine.create('x')
  const attachments = new AttachmentStore(store)
  const staged = await Promise.all(['one', 'two'].map((text) => attachments.stageWhole(Buffer.from(text))))
  await store.commit({ puts: staged.flatMap(({ puts }) => puts) })
  return { store, attachments, contents: staged.map(({ content }) => content) }
}

describeOnPostgres('contents of attachments in PostgreSQL', () => {
  it('are kept while an older state is read, with the connection that it takes', async () => {
    const { store, attachments, contents } = await stored()
    const transactions = readTransactions()
    using snapshot = store.snapshot()
    await snapshot.version()
    const reading = attachments.beside(snapshot)
    const release = await reading.keepAll([...contents, contents[0]!])
    expect(release).not.toBe('gone')
    expect(await Array.fromAsync(reading.read(contents[1]!))).toEqual([Buffer.from('two')])
    expect(transactions.most).toBe(1)
  })

  it('are gone where they were removed since the state that is read', async () => {
    const { store, attachments, contents } = await stored()
    using snapshot = store.snapshot()
    await snapshot.version()
    await store.commit({ clears: [attachmentRange(contents[1]!.number)] })
    expect(await attachments.beside(snapshot).keepAll(contents)).toBe('gone')
    expect(await attachments.beside(snapshot).keepAll(contents.slice(0, 1))).not.toBe('gone')
  })
})
