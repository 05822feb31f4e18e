/**
 * `settle backup verify`: checks the checksum of every frame of a backup, compares every segment with the manifest, and checks
 * that each segment continues where the one before it ended.
 */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { BackupDamagedError, type Frame, readFrames } from '../../backup/frame.ts'
import { databasesIn, SectionCheck } from '../../backup/section-check.ts'
import { EXIT_CODES, messageOf } from '../command-error.ts'
import { countText, type Progress, sizeText } from '../progress.ts'
import { BackupFolder } from './backup-folder.ts'
import { type Chain, followSection, READ_BYTES, type Segment } from './chain.ts'
import { segmentFaults } from './segment-faults.ts'

/** A folder, or - for standard input. Resolves to the exit code. */
export async function verifyBackup(place: string, input: AsyncIterable<Buffer>, progress: Progress): Promise<number> {
  const faults = place === '-' ? await streamFaults(input, progress) : await folderFaults(place, progress)
  for (const fault of faults) progress.warn(fault)
  if (faults.length === 0) return 0
  progress.warn(`${countText(faults.length, 'fault')} in the backup.`)
  return EXIT_CODES.damaged
}

async function folderFaults(path: string, progress: Progress): Promise<string[]> {
  const folder = await BackupFolder.openForReading(path)
  const chains = await folder.chains()
  const total = chains.flatMap(({ segments }) => segments).reduce((sum, { bytes }) => sum + bytes, 0)
  const faults: string[] = []
  let bytes = 0
  progress.begin('verify')
  for (const chain of chains) {
    faults.push(...chain.faults.map((fault) => `${basename(chain.path)}: ${fault}`))
    for (const segment of chain.segments) {
      const place = `${basename(chain.path)}/${segment.file}`
      const found = await faultsOf(chain, segment, (read) => {
        progress.update((bytes + read) / Math.max(1, total), sizeText(bytes + read))
      })
      bytes += segment.bytes
      faults.push(...found.map((fault) => `${place}: ${fault}`))
    }
    if (chain.restorable.length === 0) {
      progress.line(`${basename(chain.path)}: not complete yet; run the backup again.`)
    }
  }
  const segments = chains.flatMap((chain) => chain.segments).length
  if (faults.length === 0)
    progress.line(`${countText(segments, 'segment')} verified, ${sizeText(bytes)}: all checksums are right.`)
  return faults
}

async function faultsOf(chain: Chain, segment: Segment, onBytes: (bytes: number) => void): Promise<string[]> {
  const hash = createHash('sha256')
  let bytes = 0
  const pieces = async function* () {
    for await (const piece of createReadStream(chain.pathOf(segment), { highWaterMark: READ_BYTES })) {
      hash.update(piece)
      bytes += piece.length
      onBytes(bytes)
      yield piece
    }
  }
  try {
    const faults = segmentFaults(chain, segment, await followSection(pieces()))
    const isListed = bytes === segment.bytes && hash.digest('hex') === segment.sha256
    return isListed ? faults : ['It is not the file that the manifest lists.', ...faults]
  } catch (error) {
    return [messageOf(error)]
  }
}

async function streamFaults(source: AsyncIterable<Buffer>, progress: Progress): Promise<string[]> {
  let check: SectionCheck | undefined
  const found: string[] = []
  let listed: readonly string[] | undefined
  let bytes = 0
  const add = (frame: Frame) => {
    bytes = frame.end
    if (listed) throw new BackupDamagedError(frame.start, "A frame follows the frame 'complete'.")
    if (frame.kind === 'settings' && !check) return
    if (frame.kind === 'complete' && !check) {
      listed = databasesIn(frame)
      return
    }
    if (check) check.add(frame)
    else check = new SectionCheck(frame)
    if (!check.end) return
    found.push(check.head.name)
    check = undefined
  }
  try {
    for await (const frames of readFrames(source)) for (const frame of frames) add(frame)
    if (check) return ['The stream ends in the middle of a database.']
    if (!listed) return ["The frame 'complete' is missing: the stream ends early."]
    const missing = listed.filter((name) => !found.includes(name))
    if (missing.length > 0) return missing.map((name) => `The database ${name} is missing.`)
    progress.line(`${countText(found.length, 'database')} verified, ${sizeText(bytes)}: all checksums are right.`)
    return []
  } catch (error) {
    return [messageOf(error)]
  }
}
