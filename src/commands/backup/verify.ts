/**
 * `settle backup verify`: reads every frame of a backup and holds it against its checksum, every segment against the manifest,
 * and every chain against itself: each segment must go on where the one before it ended.
 */

import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { type Frame, readFrames } from '../../backup/frame.ts'
import { SectionCheck } from '../../backup/section-check.ts'
import { EXIT_CODES, messageOf } from '../command-error.ts'
import { countText, type Progress, sizeText } from '../progress.ts'
import { BackupFolder } from './backup-folder.ts'
import { type Chain, followSection, READ_BYTES, type Segment } from './chain.ts'

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
    for (const [i, segment] of chain.segments.entries()) {
      const place = `${basename(chain.path)}/${segment.file}`
      const found = await segmentFaults(chain, segment, chain.segments[i - 1], (read) => {
        progress.update((bytes + read) / Math.max(1, total), sizeText(bytes + read))
      })
      bytes += segment.bytes
      faults.push(...found.map((fault) => `${place}: ${fault}`))
    }
    if (chain.segments.length > 0 && chain.restorable.length === 0) {
      progress.line(`${basename(chain.path)}: it is not complete yet: run the backup again.`)
    }
  }
  const segments = chains.flatMap((chain) => chain.segments).length
  if (faults.length === 0)
    progress.line(`${countText(segments, 'segment')} verified, ${sizeText(bytes)}: all checksums are right.`)
  return faults
}

async function segmentFaults(
  chain: Chain,
  segment: Segment,
  before: Segment | undefined,
  onBytes: (bytes: number) => void,
): Promise<string[]> {
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
    const { head, position, end } = await followSection(pieces())
    const faults: string[] = []
    if (bytes !== segment.bytes || hash.digest('hex') !== segment.sha256)
      faults.push('It is not the file that the manifest lists.')
    if (segment.complete && !end) faults.push("Its frame 'end' is missing.")
    if (head.uuid !== chain.database?.uuid) faults.push('It is of another database than the manifest says.')
    if (head.since !== segment.since || position !== segment.until)
      faults.push('Its sequences are not those of the manifest.')
    if (head.since !== (before?.until ?? 0)) faults.push('It does not go on where the segment before it ends.')
    if (before && head.since > 0 && head.purge_since !== before.purge_until)
      faults.push('Purges are missing before it.')
    return faults
  } catch (error) {
    return [messageOf(error)]
  }
}

async function streamFaults(source: AsyncIterable<Buffer>, progress: Progress): Promise<string[]> {
  let check: SectionCheck | undefined
  let databases = 0
  let bytes = 0
  const add = (frame: Frame) => {
    bytes = frame.end
    if (frame.kind === 'settings' && !check) return
    if (check) check.add(frame)
    else check = new SectionCheck(frame)
    if (!check.end) return
    databases++
    check = undefined
  }
  try {
    for await (const frames of readFrames(source)) for (const frame of frames) add(frame)
    if (check) return ['The stream ends in the middle of a database.']
    progress.line(`${countText(databases, 'database')} verified, ${sizeText(bytes)}: all checksums are right.`)
    return []
  } catch (error) {
    return [messageOf(error)]
  }
}
