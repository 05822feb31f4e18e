/** The thread that scans large bodies, so that the main thread is not blocked. It loads no native modules. */
import { parentPort } from 'node:worker_threads'
import { freeMemory } from '../runtime/growing-buffer.ts'
import { type FromScanThread, type Scan, type ScanResult, serializeError, type ToScanThread } from './scan-message.ts'
import { scan } from './scan-work.ts'

interface BegunScan {
  readonly results: Generator<ScanResult, void, void>
  /** Of its text. */
  readonly memory: ArrayBuffer
}

if (parentPort) {
  const port = parentPort
  const scans = new Map<number, BegunScan>()
  const send = (message: FromScanThread, bytes: readonly ArrayBuffer[] = []) => port.postMessage(message, bytes)
  // An idle thread collects no garbage: large texts would stay in memory.
  const end = (job: number) => {
    const memory = scans.get(job)?.memory
    scans.delete(job)
    if (memory) freeMemory(memory)
  }
  const next = (job: number) => {
    try {
      const { value: result } = scans.get(job)?.results.next() ?? {}
      if (result) send({ job, result }, memoryOf(result))
    } catch (error) {
      end(job)
      send({ job, failure: serializeError(error) })
    }
  }
  port.on('message', (message: ToScanThread) => {
    const { type, job } = message
    if (type === 'end') {
      end(job)
      return
    }
    if (type === 'next') {
      next(job)
      return
    }
    const { buffer, byteOffset, byteLength } = message.text
    void resultsOf(message.scan, Buffer.from(buffer, byteOffset, byteLength)).then(
      (results) => {
        scans.set(job, { results, memory: buffer })
        next(job)
      },
      (error: unknown) => send({ job, failure: serializeError(error) }),
    )
  })
}

/** Selectors are loaded on demand: most threads only read bodies. */
async function resultsOf(work: Scan, text: Buffer): Promise<Generator<ScanResult, void, void>> {
  if (work.kind !== 'match') return scan(work, text)
  const { matchResults } = await import('./match-scan.ts')
  return matchResults(work, text)
}

function memoryOf(result: ScanResult): ArrayBuffer[] {
  if (result.kind === 'documents') return result.batch.blocks.map(({ buffer }) => buffer)
  if (result.kind === 'match') return result.projected ? [result.projected.buffer] : []
  return result.kind === 'value' ? [result.text.buffer] : []
}
