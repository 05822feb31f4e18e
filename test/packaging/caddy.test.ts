/** The example for Caddy, tried with a real one. Skipped where there is none: `apt-get install caddy`. */
import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe } from 'vitest'
import { type ProxyCommand, type ProxyPlace, worksBehind } from './behind-proxy.ts'

const EXAMPLE = join(import.meta.dirname, '../../examples/caddy/Caddyfile')
const isInstalled = spawnSync('caddy', ['version']).status === 0
if (!isInstalled) process.stderr.write('Tests behind Caddy are skipped. caddy is not installed.\n')

/** The example as it is, except for the addresses: without a name there is no certificate. */
async function prepare({ server, port, folder }: ProxyPlace): Promise<ProxyCommand> {
  const example = (await readFile(EXAMPLE, 'utf8'))
    .replace('127.0.0.1:5984', server)
    .replace(/^db\.example\.com \{$/m, `http://127.0.0.1:${port} {`)
  const file = join(folder, 'Caddyfile')
  await writeFile(file, `{\n\tadmin off\n}\n${example}`)
  const environment = { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder }
  return { command: 'caddy', args: ['run', '--config', file, '--adapter', 'caddyfile'], environment }
}

describe.skipIf(!isInstalled)('Settle behind Caddy', () => {
  worksBehind(prepare)
})
