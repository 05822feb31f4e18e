/**
 * Kills a writing process at random moments, starts it again on the same folder and checks what it finds there, over
 * and over.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Random } from '../random.ts'
import { type Acknowledgement, parseAcknowledgements } from './acknowledgements.ts'
import { Expectations } from './expectations.ts'
import { Verifier } from './verifier.ts'
import type { WriterOptions } from './writer.ts'

export interface KillRounds {
  readonly rounds: number
  /** The rounds go on, up to ten times as many, until so much was acknowledged. */
  readonly atLeast?: Partial<KillReport['acknowledged']>
  readonly compacts?: boolean
  /** Stores that come and go. */
  readonly shortLived?: number
  readonly broken?: 'early' | 'torn'
}

export interface KillReport {
  /** In sentences; the rounds end with the first one that finds any. */
  readonly problems: readonly string[]
  readonly acknowledged: Readonly<Record<Acknowledgement['kind'], number>>
}

/** One of them has a name that is too long for the name of a file. */
const STORES = ['left', 'right'.padEnd(300, '-')]
const WRITERS_PER_STORE = 8
/** A process is killed so long after it began to write, at most. */
const LONGEST_LIFE_MS = 300
/** Some are killed while they start, or before. */
const STARTING_SHARE = 0.2
const STARTING_MS = 400
/** After some kills the next process, and not the verifier, is the first to see the folder. */
const UNCHECKED_SHARE = 0.2
const KINDS: readonly Acknowledgement['kind'][] = ['ready', 'created', 'dropped', 'committed', 'compacted']

/** More than a process lives. */
const LIVES_A_ROUND = 1_000_000

export async function killAndCheck({
  rounds,
  atLeast = {},
  compacts = false,
  shortLived = 0,
  broken,
}: KillRounds): Promise<KillReport> {
  const folder = await mkdtemp(join(tmpdir(), 'settle-crash-'))
  const random = new Random()
  const verifier = new Verifier()
  const names = Array.from({ length: shortLived }, (_, i) => `short-lived-${i}`.padEnd(i % 2 === 0 ? 0 : 300, '-'))
  const expectations = new Expectations([...STORES, ...names])
  const acknowledged = { ready: 0, created: 0, dropped: 0, committed: 0, compacted: 0 }
  const problems: string[] = []
  try {
    const isEnough = () => KINDS.every((kind) => acknowledged[kind] >= (atLeast[kind] ?? 0))
    const mostRounds = 10 * rounds
    for (let round = 1; round <= (isEnough() ? rounds : mostRounds) && problems.length === 0; round++) {
      const options: WriterOptions = {
        folder,
        stores: STORES,
        writersPerStore: WRITERS_PER_STORE,
        shortLived: names,
        firstLife: round * LIVES_A_ROUND,
        compacts,
        ...(broken ? { broken } : {}),
      }
      expectations.restarted()
      const { output, complaints } = await writeAndKill(options, random)
      for (const acknowledgement of parseAcknowledgements(output)) {
        acknowledged[acknowledgement.kind]++
        expectations.learn(acknowledgement)
      }
      const found =
        round < rounds && random.chance(UNCHECKED_SHARE) ? [] : await verifier.check(folder, expectations.stores)
      if (complaints !== '') found.push(`The writer wrote: ${complaints}`)
      problems.push(...found.map((problem) => `Round ${round}: ${problem}`))
    }
  } finally {
    await verifier.stop()
    await rm(folder, { recursive: true })
  }
  return { problems, acknowledged }
}

async function writeAndKill(options: WriterOptions, random: Random): Promise<{ output: string; complaints: string }> {
  const writer = spawn(
    process.execPath,
    [fileURLToPath(new URL('writer.ts', import.meta.url)), JSON.stringify(options)],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  let output = ''
  let complaints = ''
  const closed = once(writer, 'close')
  const started = new Promise<void>((resolve) => {
    writer.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
      if (output.includes('"ready"')) resolve()
    })
  })
  writer.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  if (random.chance(STARTING_SHARE)) await pause(random.below(STARTING_MS))
  else {
    // A writer that dies by itself never says that it is ready.
    await Promise.race([started, closed])
    await pause(random.below(LONGEST_LIFE_MS))
  }
  writer.kill('SIGKILL')
  await closed
  return { output, complaints }
}
