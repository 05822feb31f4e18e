/** The most memory that a process has held while it is watched, and that its children have beside it. Linux only. */
import { childrenOf, memoryUse } from './process-use.ts'

const SAMPLE_MS = 50

export interface PeakMemory {
  /** All that was in memory at once, pages of database files that the system keeps there included. */
  readonly residentBytes: number
  /** What the process allocated for itself. */
  readonly ownBytes: number
  /** The same of the processes that it has started: functions, index work. */
  readonly childrenBytes: number
}

export class MemoryWatch {
  readonly #pid: number
  readonly #timer: NodeJS.Timeout
  #peak: PeakMemory = { residentBytes: 0, ownBytes: 0, childrenBytes: 0 }

  constructor(pid: number) {
    this.#pid = pid
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS)
    this.#sample()
  }

  stop(): PeakMemory {
    this.#sample()
    clearInterval(this.#timer)
    return this.#peak
  }

  #sample(): void {
    try {
      const { residentBytes, ownBytes } = memoryUse(this.#pid)
      const childrenBytes = childrenOf(this.#pid).reduce((sum, pid) => sum + ownBytesOf(pid), 0)
      this.#peak = highest(this.#peak, { residentBytes, ownBytes, childrenBytes })
    } catch {
      // It has ended.
    }
  }
}

export function highest(one: PeakMemory, other: PeakMemory): PeakMemory {
  return {
    residentBytes: Math.max(one.residentBytes, other.residentBytes),
    ownBytes: Math.max(one.ownBytes, other.ownBytes),
    childrenBytes: Math.max(one.childrenBytes, other.childrenBytes),
  }
}

function ownBytesOf(pid: number): number {
  try {
    return memoryUse(pid).ownBytes
  } catch {
    return 0
  }
}
