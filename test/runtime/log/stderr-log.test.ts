import { readdir } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { SettleCommand } from '../../support/settle-command.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

it('the log goes to stderr where log/writer says so, each line once, and back to its file', async () => {
  const dir = await temporaryFolder()
  const flags = ['--set', 'log/writer=stderr', '--set', 'log/format=json']
  const command = new SettleCommand(['--port', '0', '--dir', dir, ...flags])
  const client = new Client(await command.url)
  expect((await client.request('GET', '/seen-on-stderr')).status).toBe(404)
  await client.request('POST', '/_log', { body: { level: 'error', message: 'told once' } })
  await expect.poll(() => command.err).toContain('told once')
  const lines = command.err.trim().split('\n')
  expect(lines.filter((line) => line.includes('"path":"/seen-on-stderr"'))).toHaveLength(1)
  expect(lines.filter((line) => line.includes('told once'))).toHaveLength(1)
  expect((await client.request('GET', '/_log')).text).toContain('/seen-on-stderr')
  expect(await readdir(dir)).not.toContain('settle.log')

  expect((await client.request('PUT', '/_config/log/writer', { body: '"syslog"' })).status).toBe(400)
  expect((await client.request('PUT', '/_config/log/writer', { body: '"file"' })).status).toBe(200)
  await client.request('GET', '/seen-in-the-file')
  await expect.poll(async () => (await client.request('GET', '/_log')).text).toContain('/seen-in-the-file')
  expect(command.err).not.toContain('/seen-in-the-file')
  expect(await readdir(dir)).toContain('settle.log')
})
