/** The thread that reads large bodies, so that the one that answers requests need not. It has no native parts. */
import { parentPort } from 'node:worker_threads'
import { type FromScanThread, failureOf, type ScanResult, type ToScanThread } from './scan-message.ts'
import { scan } from './scan-work.ts'

if (parentPort) {
  const port = parentPort
  const scans = new Map<number, Generator<ScanResult, void, void>>()
  const send = (message: FromScanThread, bytes: readonly ArrayBuffer[] = []) => port.postMessage(message, bytes)
  const next = (job: number) => {
    try {
      const { value: result } = scans.get(job)?.next() ?? {}
      if (result) send({ job, result }, memoryOf(result))
    } catch (error) {
      scans.delete(job)
      send({ job, failure: failureOf(error) })
    }
  }
  port.on('message', (message: ToScanThread) => {
    const { type, job } = message
    if (type === 'end') {
      scans.delete(job)
      return
    }
    if (type === 'begin') {
      const { buffer, byteOffset, byteLength } = message.text
      scans.set(job, scan(message.scan, Buffer.from(buffer, byteOffset, byteLength)))
    }
    next(job)
  })
}

function memoryOf(result: ScanResult): ArrayBuffer[] {
  if (result.kind === 'documents') return result.batch.blocks.map(({ buffer }) => buffer)
  return result.kind === 'value' ? [result.text.buffer] : []
}
