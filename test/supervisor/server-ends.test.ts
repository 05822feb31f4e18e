import { expect, it } from 'vitest'
import { KeptResources } from '../../src/supervisor/kept-resources.ts'
import { RestartDelay } from '../../src/supervisor/restart-delay.ts'
import { Supervisor } from '../../src/supervisor/supervisor.ts'

const noLease = async () => ({ release: () => {} })

/** Runs a program in the place of a server; the second time it finds `again` true. */
async function supervised(program: string): Promise<{ code: number; lines: string[] }> {
  const lines: string[] = []
  const script = `process.on('message', ({ kind, previousEnd }) => {
    const again = previousEnd !== undefined
    if (kind === 'start') { ${program} }
  })`
  const command = { args: ['-e', script], environment: process.env }
  const supervisor = new Supervisor({ command, isInMemory: false }, new KeptResources(noLease), (line) => {
    lines.push(line)
  })
  return { code: await supervisor.run(), lines }
}

const READY = `process.send({ kind: 'ready' });`

it('ends with the code of a server that fails at its start', async () => {
  expect(await supervised('process.exit(3)')).toEqual({ code: 3, lines: [] })
})

it('ends when somebody ends a server that is still starting', async () => {
  expect(await supervised(`process.kill(process.pid, 'SIGTERM')`)).toEqual({ code: 143, lines: [] })
})

it('starts a server again that fell at its start by a signal', async () => {
  const { code, lines } = await supervised(`if (!again) process.kill(process.pid, 'SIGSEGV'); else process.exit(0)`)
  expect(code).toBe(0)
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatch(/^The server ended by SIGSEGV while it started, after [\d.]+ s\. It is restarted in 0 s\.$/)
})

it('starts a server again that ended with a code after it was ready, also when the next one fails at its start', async () => {
  const failing = `process.send({ kind: 'ready' }, () => process.exit(1))`
  const { code, lines } = await supervised(`
    if (!again) ${failing}
    else if (/exit code 1 after/.test(previousEnd)) process.exit(7)
    else { ${READY} process.exitCode = 0; process.disconnect() }`)
  expect(code).toBe(0)
  expect(lines.slice(0, 2)).toEqual([
    expect.stringMatching(/^The server ended with exit code 1 after/),
    expect.stringMatching(/^The server ended with exit code 7 while it started/),
  ])
})

it('waits longer the more often a server falls, and forgets old falls', () => {
  const delay = new RestartDelay()
  expect([0, 1, 2, 3].map((nowMs) => delay.nextMs(nowMs))).toEqual([0, 100, 200, 400])
  for (let i = 0; i < 20; i++) delay.nextMs(10)
  expect(delay.nextMs(11)).toBe(10_000)
  expect(delay.nextMs(100_000)).toBe(0)
})

it('keeps what the next server needs, and drops the rest', async () => {
  const held = new Set<string>()
  const resources = new KeptResources(async (folder) => {
    held.add(folder)
    return { release: () => held.delete(folder) }
  })
  await resources.lease('/a')
  await resources.lease('/b')
  resources.serverIsReady()
  resources.serverStarts()
  await resources.lease('/a')
  expect([...held]).toEqual(['/a', '/b'])
  resources.serverIsReady()
  expect([...held]).toEqual(['/a'])
})
