/** Names of files are not given out twice, since a secondary may have the first one open still. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { unsharedSockets } from '../../src/http/listeners/listener.ts'
import { createService } from '../../src/service.ts'
import { takeLease } from '../../src/storage/files/folder-lock.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

afterEach(() => {
  vi.useRealTimers()
})

/** Creates a database in a primary that is started for the given time, and deletes it; gives the generation of its file. */
async function generation(dir: string, term: number, startedMs: number): Promise<number> {
  const nodeFolder = await mkdtemp(join(tmpdir(), 'settle-nodes-'))
  onTestFinished(() => rm(nodeFolder, { recursive: true, force: true }))
  const service = await createService({
    dir,
    port: 0,
    settings: { service: { nodes: '2' } },
    supervisor: { takeLease, sockets: unsharedSockets, previousEnd: undefined, term, startedMs, nodeFolder },
  })
  try {
    const url = await service.listen()
    expect((await fetch(`${url}db`, { method: 'PUT' })).status).toBe(201)
    const file = (await readdir(dir)).find((name) => /^db\.\d+\.mdb$/.test(name)) ?? ''
    expect((await fetch(`${url}db`, { method: 'DELETE' })).status).toBe(200)
    return Number(file.split('.')[1])
  } finally {
    await service.close()
  }
}

describe('a primary that is started again', () => {
  it('uses new generations, also when the clock was set back in between', async () => {
    const dir = await temporaryFolder()
    const startedMs = Date.now()
    const first = await generation(dir, 2, startedMs)
    vi.useFakeTimers({ toFake: ['Date'] })
    vi.setSystemTime(startedMs - 86_400_000)
    expect(await generation(dir, 3, startedMs + 60_000)).toBeGreaterThan(first)
  })
})
