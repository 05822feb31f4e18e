import { describe, expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

describe('GET /_all_dbs', () => {
  it('returns the names in byte order or reverse, in a range', async () => {
    const client = new Client((await startService()).url)
    for (const name of ['b', 'a', 'a%2Fb', 'c', 'a-b']) await client.request('PUT', `/${name}`)
    const names = async (query = '') => (await client.request('GET', `/_all_dbs${query}`)).json
    expect(await names()).toEqual(['_replicator', '_users', 'a', 'a-b', 'a/b', 'b', 'c'])
    expect(await names('?descending=true')).toEqual(['c', 'b', 'a/b', 'a-b', 'a', '_users', '_replicator'])
    expect(await names('?startkey="a-"&endkey="b"')).toEqual(['a-b', 'a/b', 'b'])
    expect(await names('?start_key=%22b%22')).toEqual(['b', 'c'])
    expect(await names('?end_key=a')).toEqual(['_replicator', '_users', 'a'])
    expect(await names('?descending=true&startkey="b"&endkey="a-b"')).toEqual(['b', 'a/b', 'a-b'])
    expect(await names('?startkey="b"&endkey="a"')).toEqual([])
    expect(await names('?skip=1&limit=2&descending=true')).toEqual(['b', 'a/b'])
    expect(await names('?limit=0')).toEqual([])
    expect((await client.request('GET', '/_all_dbs?startkey="a')).status).toBe(400)
    expect((await client.request('GET', '/_all_dbs?descending=x')).status).toBe(400)
  })
})
