import { readdir } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { type Change, SimulatedDisk, SimulatedFile, SimulatedFolder } from './simulated-disk.ts'

const MOUNT = '/disk'

/** What a power cut leaves when the disk loses everything that was not flushed. */
async function namesAfterCut(disk: SimulatedDisk): Promise<string[]> {
  const folder = await temporaryFolder()
  await disk.materialise(folder, () => 0)
  return readdir(folder)
}

function rootOf(disk: SimulatedDisk): SimulatedFolder {
  const root = disk.at(MOUNT)
  if (!(root instanceof SimulatedFolder)) throw new Error('The root is a folder.')
  return root
}

function finish(change: Change): void {
  change.done = true
}

describe('a simulated disk', () => {
  it('forgets names that were not flushed', async () => {
    const disk = new SimulatedDisk(MOUNT)
    finish(disk.create(`${MOUNT}/kept`, new SimulatedFile()))
    disk.settle(disk.flushable(rootOf(disk)))
    finish(disk.create(`${MOUNT}/lost`, new SimulatedFile()))
    finish(disk.remove(`${MOUNT}/kept`))
    expect(await namesAfterCut(disk)).toEqual(['kept'])
  })

  it('keeps what a flush made durable when an earlier one ends after it', async () => {
    const disk = new SimulatedDisk(MOUNT)
    finish(disk.create(`${MOUNT}/removed`, new SimulatedFile()))
    finish(disk.create(`${MOUNT}/present.new`, new SimulatedFile()))
    disk.settle(disk.flushable(rootOf(disk)))
    finish(disk.remove(`${MOUNT}/present`))
    finish(disk.create(`${MOUNT}/removed-too`, new SimulatedFile()))
    const earlier = disk.flushable(rootOf(disk))
    finish(disk.remove(`${MOUNT}/removed-too`))
    finish(disk.remove(`${MOUNT}/removed`))
    finish(disk.rename(`${MOUNT}/present.new`, `${MOUNT}/present`))
    const later = disk.flushable(rootOf(disk))
    disk.settle(later)
    disk.settle(earlier)
    expect(await namesAfterCut(disk)).toEqual(['present'])
  })
})
