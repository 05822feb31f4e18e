import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'

const program = fileURLToPath(new URL('./full-disk.ts', import.meta.url))

it('refuses commits, creations and compactions on a full disk, goes on reading, and writes again when there is room', async () => {
  const running = spawn(process.execPath, [program, await temporaryFolder()], { stdio: ['ignore', 'ignore', 'pipe'] })
  let complaints = ''
  running.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  const [code, signal] = await once(running, 'close')
  // The library reports each refused commit on its own; the last lines are those of what ended the process.
  expect({ code, signal }, complaints.slice(-2000)).toEqual({ code: 0, signal: null })
})
