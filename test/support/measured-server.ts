/** A server in a process of its own that reports how much memory it holds. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Client } from './client.ts'
import { temporaryFolder } from './temporary-folder.ts'

export class MeasuredServer {
  readonly client: Client
  readonly #child: ChildProcess

  static async start(settings: Record<string, Record<string, string>> = {}): Promise<MeasuredServer> {
    const script = join(import.meta.dirname, 'measured-process.ts')
    const args = [await temporaryFolder(), JSON.stringify(settings)]
    const env = {
      ...process.env,
      UV_THREADPOOL_SIZE: '32',
      MALLOC_MMAP_THRESHOLD_: '500000',
      MALLOC_ARENA_MAX: '2',
      MALLOC_TRIM_THRESHOLD_: '16000000',
    }
    const child = fork(script, args, { execArgv: ['--expose-gc'], env })
    onTestFinished(async () => {
      child.disconnect()
      await once(child, 'exit')
    })
    const [{ url }] = (await once(child, 'message')) as [{ url: string }]
    return new MeasuredServer(child, new Client(url))
  }

  private constructor(child: ChildProcess, client: Client) {
    this.#child = child
    this.client = client
    onTestFinished(() => client.close())
  }

  async heldBytes(): Promise<number> {
    return (await this.measure()).heldBytes
  }

  /** After everything that nobody needs was freed. */
  async measure(): Promise<MeasuredMemory> {
    const answer = once(this.#child, 'message')
    this.#child.send('measure')
    const [measured] = (await answer) as [MeasuredMemory]
    return measured
  }
}

export interface MeasuredMemory {
  /** By JavaScript: objects, and what they hold outside of their heap. */
  readonly heldBytes: number
  /** All that the process has to itself. */
  readonly privateMegabytes: number
}
