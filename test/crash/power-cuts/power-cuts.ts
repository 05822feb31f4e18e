/**
 * Records a writing process once, with all that it does to its files, and then cuts the power at many moments of that
 * record: each time with another choice of what the disk had still kept, of what it was free to lose.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parentFolder } from '../../support/parent-folder.ts'
import { Random } from '../random.ts'
import { Expectations } from '../store/expectations.ts'
import { Verifier } from '../store/verifier.ts'
import type { WriterOptions } from '../store/writer.ts'
import { isLock, Replay } from './replay.ts'
import type { Fate } from './simulated-disk.ts'
import { record, type Step } from './system-calls.ts'

/** One of each kind has a name that is too long for the name of a file. */
const STORES = ['left', 'right'.padEnd(300, '-')]
const SHORT_LIVED = ['short-lived', 'short-lived-too'.padEnd(300, '-')]

export interface Recording {
  readonly steps: readonly Step[]
  /** The folder that everything happened in, as it was at the end. */
  readonly folder: string
  readonly discard: () => Promise<void>
}

export interface RecordOptions {
  readonly commits: number
  readonly writersPerStore: number
  readonly broken?: 'unflushed'
}

export async function recordWriter({ commits, writersPerStore, broken }: RecordOptions): Promise<Recording> {
  const temporary = await mkdtemp(join(tmpdir(), 'settle-power-'))
  const folder = join(temporary, 'disk')
  await mkdir(folder)
  const options: WriterOptions = {
    folder: join(folder, 'data'),
    stores: STORES,
    writersPerStore,
    shortLived: broken ? [] : SHORT_LIVED,
    firstLife: 1,
    compacts: !broken,
    commits,
    ...(broken ? { broken } : {}),
  }
  const program = fileURLToPath(new URL('../store/writer.ts', import.meta.url))
  const steps = await record(program, [JSON.stringify(options)], join(temporary, 'trace'))
  return { steps, folder, discard: () => rm(temporary, { recursive: true }) }
}

/** Files in which the record, played to its end, differs from what is really there: written past the record. */
export async function differencesFromReality({ steps, folder }: Recording): Promise<string[]> {
  const replay = new Replay({ folder, onAcknowledgement: () => {} })
  for (const step of steps) replay.play(step)
  const copy = await mkdtemp(join(tmpdir(), 'settle-power-'))
  try {
    await replay.disk.materialise(copy, 'now')
    const [played, real] = await Promise.all([contents(copy), contents(folder)])
    return [...new Set([...played.keys(), ...real.keys()])].filter(
      (path) => !isLock(path) && !(played.get(path) && real.get(path)?.equals(played.get(path)!)),
    )
  } finally {
    await rm(copy, { recursive: true })
  }
}

export interface CutOptions {
  readonly cuts: number
  readonly forgetsNames?: boolean
}

export interface CutReport {
  /** In sentences; the cutting ends with the first cut that finds any. */
  readonly problems: readonly string[]
  readonly cuts: number
  /** How many acknowledgements had gone out at the last cut. */
  readonly acknowledgements: number
}

export async function cutAndCheck({ steps, folder }: Recording, options: CutOptions): Promise<CutReport> {
  const { cuts, forgetsNames = false } = options
  const random = new Random()
  const moments = chooseMoments(steps, folder, cuts, random)
  const expectations = new Expectations([...STORES, ...SHORT_LIVED])
  let acknowledgements = 0
  const replay = new Replay({
    folder,
    forgetsNames,
    onAcknowledgement: (acknowledgement) => {
      acknowledgements++
      expectations.learn(acknowledgement)
    },
  })
  const verifier = new Verifier()
  const problems: string[] = []
  let played = 0
  let made = 0
  try {
    for (const moment of moments) {
      while (played < moment) replay.play(steps[played++]!)
      made++
      const found = await cut(replay, expectations, verifier, random)
      problems.push(...found.map((problem) => `Cut at ${moment} of ${steps.length}, seed ${random.seed}: ${problem}`))
      if (problems.length > 0) break
    }
  } finally {
    await verifier.stop()
  }
  return { problems, cuts: made, acknowledgements }
}

/** In the order of time, and only moments at which something happens to the disk or is acknowledged. */
function chooseMoments(steps: readonly Step[], folder: string, cuts: number, random: Random): number[] {
  const replay = new Replay({ folder, onAcknowledgement: () => {} })
  const candidates = steps.flatMap((step, i) => (replay.play(step) ? [i + 1] : []))
  return Array.from({ length: cuts }, () => candidates[random.below(candidates.length)]!).sort((a, b) => a - b)
}

async function cut(replay: Replay, expectations: Expectations, verifier: Verifier, random: Random): Promise<string[]> {
  // What is left of a simulated disk need not be flushed to a real one.
  const folder = await mkdtemp(join(await parentFolder(), 'settle-power-'))
  try {
    await replay.disk.materialise(folder, chooseFate(random))
    await spoilLocks(folder, random)
    return await verifier.check(join(folder, 'data'), expectations.stores)
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Nothing that was pending, all of it, or some: few or many. */
function chooseFate(random: Random): Fate {
  const kind = random.below(6)
  if (kind === 0) return () => 0
  if (kind === 1) return (states) => states
  const share = random.next()
  return (states) => (random.chance(share) ? 1 + random.below(states) : 0)
}

/** Locks are written through memory, so anything may be in them. */
async function spoilLocks(folder: string, random: Random): Promise<void> {
  for (const [path, content] of await contents(folder)) {
    if (!path.endsWith('.mdb-lock') || random.chance(0.5)) continue
    const rubbish = Uint8Array.from({ length: 997 }, () => random.below(256))
    await writeFile(join(folder, path), Buffer.alloc(content.length, rubbish))
  }
}

async function contents(folder: string): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>()
  for (const entry of await readdir(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    found.set(path.slice(folder.length + 1), await readFile(path))
  }
  return found
}
