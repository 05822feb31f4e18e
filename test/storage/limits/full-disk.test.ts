import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const program = fileURLToPath(new URL('./full-disk.ts', import.meta.url))

/** A file system of its own, in memory: a namespace of the process, so that nobody else sees it. */
const OWN_NAMESPACE = ['--user', '--map-root-user', '--mount']
const DISK = 'mount -t tmpfs -o size=16m none "$2" && exec "$0" "$1" "$2" disk'

const canMount = spawnSync('unshare', [...OWN_NAMESPACE, 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0

it('refuses commits, creations and compactions while files cannot grow, continues to read, and writes again when they can', async () => {
  await runs(process.execPath, [program, await temporaryFolder(), 'limit'])
})

it.skipIf(!canMount)('refuses them on a full disk, and takes them when there is room', async () => {
  const shell = ['sh', '-c', DISK, process.execPath, program, await temporaryFolder()]
  await runs('unshare', [...OWN_NAMESPACE, ...shell])
})

async function runs(command: string, parameters: readonly string[]): Promise<void> {
  const running = spawn(command, parameters, { stdio: ['ignore', 'ignore', 'pipe'] })
  let complaints = ''
  running.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  const [code, signal] = await once(running, 'close')
  expect({ code, signal, complaints: complaints.slice(-2000) }).toEqual({ code: 0, signal: null, complaints: '' })
}
