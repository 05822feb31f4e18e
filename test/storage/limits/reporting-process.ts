/** A program of the tests in a process of its own, started as the server is, that prints what it found as JSON. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export async function reportOf<Report>(
  program: string,
  parameters: readonly (string | number)[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Report> {
  const running = spawn(process.execPath, ['--expose-gc', fileURLToPath(program), ...parameters.map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, UV_THREADPOOL_SIZE: '32', MALLOC_MMAP_THRESHOLD_: '500000', ...environment },
  })
  let output = ''
  running.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const [code] = await once(running, 'close')
  assert.equal(code, 0, 'The process ended well.')
  return JSON.parse(output)
}
