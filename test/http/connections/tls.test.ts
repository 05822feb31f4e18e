import { get } from 'node:https'
import { describe, expect, it } from 'vitest'
import { certificate } from '../../support/certificate.ts'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { isBalanced } from '../../support/test-service.ts'
import { until } from '../../support/until.ts'

function status(url: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url, { rejectUnauthorized: false, agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode)
    }).on('error', reject)
  })
}

// Behind a secondary each node has ports of its own.
describe.skipIf(isBalanced)('TLS', () => {
  it('has an address of its own beside the plain one', async () => {
    const files = await certificate(await temporaryFolder())
    const settings = { daemons: { httpsd: 'on' }, ssl: { port: '0', ...files } }
    const service = await startService({ settings })
    const [plain = '', secure = ''] = service.urls
    expect([plain.slice(0, 5), secure.slice(0, 6)]).toEqual(['http:', 'https:'])
    expect(await status(`${secure}_up`)).toBe(200)
    const location = await new Promise((resolve, reject) => {
      get(`${secure}_utils`, { rejectUnauthorized: false, agent: false }, ({ headers }) =>
        resolve(headers.location),
      ).on('error', reject)
    })
    expect(location).toBe(`${secure}_utils/`)
  })

  it('is switched on and off while the server runs, without affecting the plain address', async () => {
    const dir = await temporaryFolder()
    const files = await certificate(dir)
    const service = await startService({ dir })
    const client = new Client(service.url)
    const put = (path: string, value: string) =>
      client.request('PUT', `/_config/${path}`, { body: JSON.stringify(value) })
    await put('ssl/port', '0')
    await put('daemons/httpsd', 'on')
    expect(service.urls).toHaveLength(1)
    expect((await client.request('GET', '/_log')).text).toContain('TLS needs ssl/cert_file and ssl/key_file')
    await put('ssl/cert_file', 'cert.pem')
    await put('ssl/key_file', files.key_file)
    const [, secure = ''] = service.urls
    expect(await status(secure)).toBe(200)
    expect((await client.request('POST', '/_restart', { body: '' })).status).toBe(202)
    const log = () =>
      fetch(`${service.url}_log`).then(
        (reply) => reply.text(),
        () => '',
      )
    await until(async () => /Restarting\..*listens\./s.test(await log()))
    expect(service.urls[1]).toBe(secure)
    expect(await status(secure)).toBe(200)
    await client.request('DELETE', '/_config/daemons/httpsd')
    expect(service.urls).toHaveLength(1)
    await expect(status(secure)).rejects.toThrow()
    expect((await client.request('GET', '/')).status).toBe(200)
  })
})
