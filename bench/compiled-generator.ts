/**
 * A load generator in C, `generator/generator.c`, for loads of documents that differ in their number only. A request costs it
 * a third of what it costs Node: on a machine with few cores that is what is left for the servers. Built by the compiler of
 * the machine, where there is one.
 */
import { spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { temporaryFolder } from './child-process.ts'
import type { ServerAddress } from './http-connection.ts'
import type { NumberedRequests } from './load.ts'

export interface GeneratorMeasure {
  readonly requests: number
  readonly seconds: number
  /** What the generator used of the processors. */
  readonly processorSeconds: number
}

const SOURCE = join(import.meta.dirname, 'generator/generator.c')

export class CompiledGenerator {
  readonly #program: string

  private constructor(program: string) {
    this.#program = program
  }

  /** Undefined where nothing on the machine compiles it. */
  static build(): CompiledGenerator | undefined {
    const program = join(temporaryFolder(), 'generator')
    const { status } = spawnSync('cc', ['-O2', '-o', program, SOURCE], { stdio: 'ignore' })
    return status === 0 ? new CompiledGenerator(program) : undefined
  }

  /** As `drive` of `load.ts`. Throws when a reply is not the right one. */
  async drive(
    servers: readonly ServerAddress[],
    requests: NumberedRequests,
    { connections, durationMs }: { readonly connections: number; readonly durationMs: number },
  ): Promise<GeneratorMeasure> {
    const { templates, status, documents = 0, next } = requests
    const addresses = servers.map(({ host, port }) => `${host}:${port}`).join(',')
    const numbers = [connections, durationMs, status, documents, next].map((each) => String(Math.round(each)))
    const child = spawn(this.#program, [...numbers, addresses, ...templates], { stdio: ['ignore', 'pipe', 'pipe'] })
    const [figures, failure] = await Promise.all([text(child.stdout), text(child.stderr)])
    if (failure !== '' || figures === '') throw new Error(failure || 'The generator ended too early.')
    const measure: GeneratorMeasure = JSON.parse(figures)
    requests.next += measure.requests
    return measure
  }
}
