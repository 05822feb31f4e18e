import { describe, expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { isBalanced } from '../../support/test-service.ts'

describe('the headers of a proxy', () => {
  it('are those that the configuration names', async () => {
    const settings = { httpd: { x_forwarded_host: 'X-Host', x_forwarded_ssl: 'X-Ssl', x_forwarded_proto: 'X-Proto' } }
    const client = new Client((await startService({ settings })).url)
    const location = async (name: string, headers: Record<string, string>) =>
      (await client.request('PUT', `/${name}`, { headers: { Host: 'inner', ...headers } })).headers.location
    expect(await location('a', { 'X-Host': 'outer', 'X-Ssl': 'on' })).toBe('https://outer/a')
    expect(await location('b', { 'X-Proto': 'https' })).toBe('https://inner/b')
    expect(await location('c', { 'X-Forwarded-Host': 'outer', 'X-Forwarded-Ssl': 'on' })).toBe('http://inner/c')
  })

  // The server then names itself, and not the load balancer.
  it.skipIf(isBalanced)('are not needed when a client names no host', async () => {
    const client = new Client((await startService()).url)
    const received = await client.exchange('PUT /a HTTP/1.0\r\nContent-Length: 0\r\n\r\n')
    expect(received).toContain(`Location: http://127.0.0.1:${client.url.port}/a`)
  })
})
