/** Which languages have a query server, and what changes of the configuration do to their processes. */
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Configuration } from '../../../src/config/configuration.ts'
import { withSetting } from '../../../src/config/ini-text.ts'
import { defaultSettings, SettingMemory } from '../../../src/config/setting-sources.ts'
import type { Functions } from '../../../src/functions/functions.ts'
import { QueryServers } from '../../../src/functions/query-servers/query-servers.ts'
import { silentLog } from '../../../src/runtime/log/log.ts'

const PROGRAM = fileURLToPath(new URL('../support/query-server.mjs', import.meta.url))
const COMMAND = `"${process.execPath}" "${PROGRAM}"`

async function start(): Promise<{ configuration: Configuration; servers: QueryServers; warnings: string[] }> {
  const flags = withSetting(new Map(), 'query_servers', 'node', COMMAND)
  const stored = new SettingMemory()
  const configuration = await Configuration.load({ defaults: await defaultSettings(), stored, flags })
  const warnings: string[] = []
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) }
  const servers = new QueryServers({ configuration, log })
  onTestFinished(() => servers.close())
  return { configuration, servers, warnings }
}

async function pidOf(functions: Functions | undefined): Promise<string> {
  const source = 'function (keys, values) { return process.pid }'
  const [pid] = (await functions?.reduce({ language: 'node', source }, [[]], { owner: 'db' })) ?? []
  return pid ?? 'none'
}

describe('the query servers of the configuration', () => {
  it('are there for languages that have a command', async () => {
    const { servers } = await start()
    expect(servers.find('node')).toBe(servers.find('node'))
    expect(servers.find('other')).toBeUndefined()
    // The server has its own.
    expect(servers.find('javascript')).toBeUndefined()
  })

  it.each([
    ['query_server_config', 'reduce_limit', 'false'],
    ['query_servers', 'other', 'x'],
  ])('are restarted when %s changes', async (section, key, value) => {
    const { configuration, servers } = await start()
    const before = await pidOf(servers.find('node'))
    expect(await pidOf(servers.find('node'))).toBe(before)
    await configuration.set(section, key, value)
    expect(await pidOf(servers.find('node'))).not.toBe(before)
  })

  it('run no command that was set at run time', async () => {
    const { configuration, servers, warnings } = await start()
    const functions = servers.find('node')
    await configuration.set('query_servers', 'new', COMMAND)
    await configuration.set('query_servers', 'node', `${COMMAND} changed`)
    for (let i = 0; i < 3; i++) expect([servers.find('new'), servers.find('node')]).toEqual([undefined, undefined])
    expect(warnings).toHaveLength(2)
    // Nor for who has the functions from before.
    await expect(pidOf(functions)).rejects.toMatchObject({ error: 'unknown_query_language', reason: 'node' })
    await configuration.set('query_servers', 'node', COMMAND)
    expect(await pidOf(servers.find('node'))).toMatch(/^\d+$/)
  })
})
