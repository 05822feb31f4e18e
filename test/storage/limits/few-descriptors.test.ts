import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const program = fileURLToPath(new URL('./few-descriptors.ts', import.meta.url))

it.skipIf(process.platform === 'win32')('opens a store or says that there are no descriptors left', async () => {
  const command = ['-c', 'ulimit -n 256 && exec "$0" "$@"', process.execPath, program, await temporaryFolder()]
  const running = spawn('sh', command, { stdio: ['ignore', 'ignore', 'pipe'] })
  let complaints = ''
  running.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  const [code, signal] = await once(running, 'close')
  expect({ code, signal }, complaints.slice(-2000)).toEqual({ code: 0, signal: null })
})
