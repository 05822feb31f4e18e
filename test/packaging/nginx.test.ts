/** The example for nginx, tried with a real one. Skipped where there is none: `apt-get install nginx-light`. */
import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe } from 'vitest'
import { type ProxyCommand, type ProxyPlace, worksBehind } from './behind-proxy.ts'

const EXAMPLE = join(import.meta.dirname, '../../examples/nginx/settle.conf')
const isInstalled = spawnSync('nginx', ['-v']).status === 0
if (!isInstalled) process.stderr.write('Tests behind nginx are skipped. nginx is not installed.\n')

/** The example as it is, except for the addresses and without its certificates. */
async function prepare({ server, port, folder }: ProxyPlace): Promise<ProxyCommand> {
  const example = (await readFile(EXAMPLE, 'utf8'))
    .replace('server 127.0.0.1:5984;', `server ${server};`)
    .replace('listen 443 ssl;', `listen 127.0.0.1:${port};`)
    .replace(/^ *ssl_certificate.*$/gm, '')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  )
  // One process: a killed master would leave its workers behind.
  const config = `daemon off; master_process off; error_log ${folder}/error.log; pid ${folder}/pid;
events { worker_connections 256; }
http { access_log off; ${temporary.join(' ')}
${example} }`
  const file = join(folder, 'nginx.conf')
  await writeFile(file, config)
  return { command: 'nginx', args: ['-c', file, '-p', folder] }
}

describe.skipIf(!isInstalled)('Settle behind nginx', () => {
  worksBehind(prepare)
})
