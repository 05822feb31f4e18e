import { readdirSync } from 'node:fs'
import { copyFile, writeFile } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { OpenFiles } from '../../../src/storage/lmdb/open-files.ts'
import {
  MoveFailedError,
  NoDescriptorsError,
  StoreGoneError,
  StoreMissingError,
} from '../../../src/storage/storage-error.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const KEY = Buffer.from('key')
const VALUE = Buffer.from('value')

async function open() {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder, isShared: true })
  onTestFinished(() => engine.close())
  const files = () => readdirSync(folder).filter((name) => name.startsWith('store.'))
  const store = await engine.create('store')
  await store.commit({ puts: [[KEY, VALUE]] })
  return { engine, store, files }
}

/** Whether it is settled when everything had its turn that can have it. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let isOver = false
  promise.then(() => {
    isOver = true
  })
  for (let turn = 0; turn < 50; turn++) await nextTurn()
  return isOver
}

describe('a store that another process has a lease on', () => {
  it('is dropped when the lease was revoked and released, and not before', async () => {
    const { engine, files } = await open()
    const lease = engine.lend('store')
    expect(lease.revoked.aborted).toBe(false)
    const dropped = engine.drop('store')
    expect(lease.revoked.aborted).toBe(true)
    expect(lease.revoked.reason).toBeInstanceOf(StoreGoneError)
    expect(() => engine.lend('store')).toThrow(StoreMissingError)
    expect(await isSettled(dropped)).toBe(false)
    expect(files()).toContain('store.1.mdb')
    await lease.release()
    await dropped
    await engine.close()
    expect(files()).toEqual([])
  })

  it('is not lent as another one of its name', async () => {
    const { engine, store } = await open()
    await engine.drop('store')
    await engine.create('store')
    expect(() => engine.lend('store', store)).toThrow(StoreGoneError)
  })

  it('keeps the file before a compaction until the lease is released', async () => {
    const { engine, store, files } = await open()
    const lease = engine.lend('store')
    await store.compact()
    const later = engine.lend('store')
    expect(later.path).not.toBe(lease.path)
    expect(files()).toEqual(expect.arrayContaining(['store.1.mdb', 'store.2.mdb']))
    await lease.release()
    await expect.poll(files).not.toContain('store.1.mdb')
    expect(files()).toContain('store.2.mdb')
    await later.release()
  })

  it('leaves nothing of any generation when it is dropped', async () => {
    const { engine, store, files } = await open()
    const lease = engine.lend('store')
    await store.compact()
    const dropped = engine.drop('store')
    expect(await isSettled(dropped)).toBe(false)
    await lease.release()
    await dropped
    expect(files().filter((name) => name.endsWith('.mdb'))).toEqual([])
  })

  it('moves to the file that the holder wrote', async () => {
    const { engine, store, files } = await open()
    const lease = engine.lend('store')
    const next = lease.nextPath()
    await copyFile(lease.path, next)
    await lease.moveTo(next)
    using snapshot = store.snapshot()
    expect(await snapshot.get(KEY)).toEqual(VALUE)
    expect(files()).toEqual(expect.arrayContaining(['store.1.mdb', 'store.2.mdb']))
    await lease.release()
    await expect.poll(files).not.toContain('store.1.mdb')
  })

  it('removes what a dead holder left', async () => {
    const { engine, files } = await open()
    const lease = engine.lend('store')
    const [unfinished, untold] = [lease.nextPath(), lease.nextPath()]
    await writeFile(`${unfinished}.new`, '')
    await copyFile(lease.path, untold)
    await lease.abandon()
    expect(files().filter((name) => !name.endsWith('-lock'))).toEqual(['store.1.mdb'])
  })
})

describe('commits to a store that another process opens', () => {
  it('are paused here and by the holder of a lease, and no new holder may write', async () => {
    const { engine, store } = await open()
    const lease = engine.lend('store')
    const events: string[] = []
    const holder = Promise.withResolvers<void>()
    lease.pauseHolder = async () => {
      await holder.promise
      events.push('paused')
      return () => events.push('resumed')
    }
    const [place] = engine.places()
    const pausing = engine.pauseCommits(place!)
    expect(await isSettled(pausing)).toBe(false)
    holder.resolve()
    const resume = await pausing
    const commit = store.commit({ puts: [[KEY, VALUE]] })
    const resumed = engine.whenUnpaused('store', () => {})
    expect([await isSettled(commit), await isSettled(resumed), events]).toEqual([false, false, ['paused']])
    resume?.()
    await commit
    await resumed
    await resumed
    expect(events).toEqual(['paused', 'resumed'])
    await lease.release()
  })

  it('come before the next pause, so that openings one after the other do not keep them waiting', async () => {
    const { engine, store } = await open()
    const [place] = engine.places()
    const first = await engine.pauseCommits(place!)
    const commit = store.commit({ puts: [[KEY, VALUE]] })
    await nextTurn()
    const second = engine.pauseCommits(place!)
    expect(await isSettled(second)).toBe(false)
    first?.()
    await commit
    const resume = await second
    expect(await isSettled(store.commit({ puts: [[KEY, VALUE]] }))).toBe(false)
    resume?.()
  })

  it('are not paused for a file that the store does not have any more', async () => {
    const { engine, store } = await open()
    const [place] = engine.places()
    await store.compact()
    expect(await engine.pauseCommits(place!)).toBe(undefined)
    await expect(engine.pauseCommits({ name: 'other', path: place!.path })).rejects.toThrow(StoreMissingError)
  })
})

describe('a pause of the commits to a store', () => {
  it('begins and ends where a holder that writes all the time has two leases', async () => {
    const { engine } = await open()
    const holder = await LmdbEngine.open({ folder: await temporaryFolder() })
    onTestFinished(() => holder.close())
    const written = await holder.create('store')
    const [ofHolder] = holder.places()
    const pauseHolder = async () => (await holder.pauseCommits(ofHolder!)) ?? (() => {})
    for (const lease of [engine.lend('store'), engine.lend('store')]) {
      lease.pauseHolder = pauseHolder
      onTestFinished(() => lease.release())
    }
    const [place] = engine.places()
    let isOver = false
    const write = async () => {
      while (!isOver) await written.commit({ puts: [[KEY, VALUE]] })
    }
    const churn = async () => {
      for (let i = 0; i < 20; i++) {
        const resume = await engine.pauseCommits(place!)
        await nextTurn()
        resume?.()
      }
    }
    const writing = [write(), write(), write()]
    await Promise.all([churn(), churn(), churn()])
    isOver = true
    await Promise.all(writing)
  })

  it('ends for those that wait for it, though others pause them all the time', async () => {
    const { engine } = await open()
    const [place] = engine.places()
    let isServed = false
    const churn = async () => {
      while (!isServed) {
        const resume = await engine.pauseCommits(place!)
        await nextTurn()
        resume?.()
      }
    }
    const churning = [churn(), churn(), churn()]
    await nextTurn()
    const served = engine.whenUnpaused('store', () => 'served')
    const turns = (async () => {
      for (let turn = 0; turn < 1000; turn++) await nextTurn()
      return 'starved'
    })()
    const outcome = await Promise.race([served, turns])
    isServed = true
    await Promise.all(churning)
    expect(outcome).toBe('served')
  })
})

describe('a store whose file cannot be opened here', () => {
  /** As without free descriptors. */
  function refuseToOpen(): () => void {
    const acquire = OpenFiles.prototype.acquire
    OpenFiles.prototype.acquire = () => {
      throw new NoDescriptorsError('Too many files and connections are open; try again later.')
    }
    const allow = () => {
      OpenFiles.prototype.acquire = acquire
    }
    onTestFinished(allow)
    return allow
  }

  it('is not lent', async () => {
    const { engine } = await open()
    const allow = refuseToOpen()
    expect(() => engine.lend('store')).toThrow(NoDescriptorsError)
    allow()
    const lease = engine.lend('store')
    await lease.release()
    await engine.drop('store')
  })

  it('stays in its file when a holder rewrote it, and the new file goes with the lease', async () => {
    const { engine, store, files } = await open()
    const lease = engine.lend('store')
    const next = lease.nextPath()
    await copyFile(lease.path, next)
    const allow = refuseToOpen()
    await expect(lease.moveTo(next)).rejects.toThrow(MoveFailedError)
    allow()
    expect(engine.places()).toEqual([{ name: 'store', path: lease.path }])
    await lease.abandon()
    expect(files()).not.toContain('store.2.mdb')
    const snapshot = store.snapshot()
    expect(await snapshot.get(KEY)).toEqual(VALUE)
    snapshot.release()
  })
})
