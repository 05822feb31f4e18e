/** The feeds as `EventSource` receives them. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

type Told = { kind: 'open' } | { kind: 'message'; data: string; lastEventId: string }

/** All that the client reported so far. */
function listen(url: string): Told[] {
  const told: Told[] = []
  const child = fork(join(import.meta.dirname, 'event-source.ts'), [url], {
    execArgv: ['--experimental-eventsource', '--disable-warning=UNDICI-ES'],
  })
  child.on('message', (message: Told) => told.push(message))
  onTestFinished(async () => {
    child.disconnect()
    await once(child, 'exit')
  })
  return told
}

function messages(told: readonly Told[]): { data: unknown; lastEventId: string }[] {
  return told.flatMap((each) =>
    each.kind === 'message' ? [{ data: JSON.parse(each.data), lastEventId: each.lastEventId }] : [],
  )
}

describe('EventSource', () => {
  it('receives each change once, heartbeats or not, and resumes where it was after the feed ended', async () => {
    const db = await new Client((await startService()).url).database()
    await db.save('a', {})
    // The feed ends of silence, again and again: the client comes back by itself.
    const told = listen(`${db.url}/_changes?feed=eventsource&timeout=100`)
    const beating = listen(`${db.url}/_changes?feed=eventsource&heartbeat=50`)
    await until(async () => messages(told).length === 1 && messages(beating).length === 1)
    await db.save('b', { text: 'two\nlines' })
    await until(async () => told.filter(({ kind }) => kind === 'open').length > 1, 20_000)
    await db.save('c', {})
    await until(async () => messages(told).length === 3 && messages(beating).length === 3, 20_000)
    for (const each of [told, beating]) {
      expect(messages(each)).toMatchObject([
        { data: { seq: 1, id: 'a' }, lastEventId: '1' },
        { data: { seq: 2, id: 'b' }, lastEventId: '2' },
        { data: { seq: 3, id: 'c' }, lastEventId: '3' },
      ])
    }
  })

  it('receives events of databases', async () => {
    const client = new Client((await startService()).url)
    const told = listen(`${client.url}_db_updates?feed=eventsource`)
    await until(async () => told.length > 0)
    await client.request('PUT', '/things')
    await until(async () => messages(told).length === 1)
    expect(messages(told)).toEqual([{ data: { ok: true, type: 'created', db_name: 'things' }, lastEventId: '' }])
  })
})
