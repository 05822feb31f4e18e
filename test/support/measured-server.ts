/** A server in a process of its own that tells how much memory it holds. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Client } from './client.ts'
import { temporaryFolder } from './temporary-folder.ts'

export class MeasuredServer {
  readonly client: Client
  readonly #child: ChildProcess

  static async start(): Promise<MeasuredServer> {
    const script = join(import.meta.dirname, 'measured-process.ts')
    const child = fork(script, [await temporaryFolder()], { execArgv: ['--expose-gc'] })
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

  /** After everything that nobody needs was freed. */
  async heldBytes(): Promise<number> {
    const answer = once(this.#child, 'message')
    this.#child.send('measure')
    const [{ heldBytes }] = (await answer) as [{ heldBytes: number }]
    return heldBytes
  }
}
