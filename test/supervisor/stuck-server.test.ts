import { expect, it, onTestFinished } from 'vitest'
import { KeptResources } from '../../src/supervisor/kept-resources.ts'
import { Supervisor } from '../../src/supervisor/supervisor.ts'

/** Hears that it is to end, and does not. */
const STUCK = 'process.on("message", () => {}); setInterval(() => {}, 1000)'

it('kills a server that does not shut down in time', async () => {
  const lines: string[] = []
  const resources = new KeptResources(() => Promise.reject(new Error('No folder is used.')))
  const command = { args: ['-e', STUCK], environment: process.env }
  const supervisor = new Supervisor({ command, isInMemory: false, stopLimitMs: 500 }, resources, (line) =>
    lines.push(line),
  )
  const ended = supervisor.run()
  supervisor.stop()
  // The second time it does not wait.
  onTestFinished(() => supervisor.stop())
  expect(await ended).toBe(128 + 9)
  expect(lines).toEqual(['The server did not shut down within 0.5 s. It is killed.'])
})
