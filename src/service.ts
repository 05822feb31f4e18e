/**
 * The server as a library: opens the data folder, loads the configuration and starts a service. Any number of services may
 * run in one process; they share nothing.
 */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hashAdminPassword, isAdminHash, looksLikeAdminHash } from './auth/passwords/passwords.ts'
import { Configuration } from './config/configuration.ts'
import { withSetting } from './config/ini-text.ts'
import { defaultSettings, environmentSettings } from './config/setting-sources.ts'
import { memoryHome, openHome } from './data-home.ts'
import { nodeCount } from './nodes/node-count.ts'
import { RunningService, type Service, type WantedSecondaries } from './running-service.ts'
import { silentLog } from './runtime/log/log.ts'
import { randomUuid } from './runtime/uuids.ts'
import { version } from './runtime/version.ts'
import { flagSettings, homeFolder, type ServiceOptions } from './service-options.ts'

export type { Service, ServiceOptions, WantedSecondaries }
export { version }

/** Locks and opens the data folder. Throws an error whose message is a sentence for the operator. */
export async function createService(options: ServiceOptions = {}): Promise<Service> {
  const flags = flagSettings(options)
  const environment = environmentSettings(options.environment ?? {})
  const ownDefaults = withSetting(await defaultSettings(), 'vendor', 'version', version)
  const folder = homeFolder([flags, environment, ownDefaults])
  // Indexes are stored with the databases by default.
  const defaults = withSetting(ownDefaults, 'service', 'view_index_dir', folder)
  const onKilled = (pid: number) =>
    (options.log ?? silentLog).warn('An earlier server was still running without its supervisor. It was killed.', {
      pid,
    })
  const home = options.inMemory
    ? memoryHome()
    : await openHome(folder, { lease: options.supervisor?.takeLease, onKilled })
  // The server starts for reading even if the disk is full.
  const onUnsaved = (error: unknown) => {
    const log = options.log ?? silentLog
    log.warn('Settings could not be stored; they are in effect until the process ends.', { error: String(error) })
  }
  try {
    const configuration = await Configuration.load({
      defaults,
      ...(home.operatorFiles && { files: home.operatorFiles }),
      stored: home.settings,
      environment,
      flags,
      adminPasswords: { isHash: isAdminHash, looksLikeHash: looksLikeAdminHash, hash: hashAdminPassword },
      onUnsaved,
    })
    if (configuration.get('service', 'uuid') === undefined) {
      const uuid = randomUuid()
      await configuration.set('service', 'uuid', uuid).catch(async (error: unknown) => {
        onUnsaved(error)
        await configuration.set('service', 'uuid', uuid, { persist: false })
      })
    }
    return await RunningService.start(configuration, home, options, await wantedSecondaries(configuration, options))
  } catch (error) {
    await home.close()
    throw error
  }
}

/** Only a supervisor can start other nodes, and only data on disk can be read by several processes. */
async function wantedSecondaries(
  configuration: Configuration,
  { inMemory, supervisor }: ServiceOptions,
): Promise<WantedSecondaries | undefined> {
  const nodes = nodeCount(configuration)
  // Secondaries read files; a server whose databases are elsewhere is one node.
  const hasFiles = !inMemory && configuration.get('service', 'engine') === undefined
  if (nodes < 2 || !supervisor || !hasFiles) return undefined
  // A socket's path must be short, so it cannot be in the data folder.
  return { count: nodes - 1, folder: supervisor.nodeFolder ?? (await mkdtemp(join(tmpdir(), 'settle-nodes-'))) }
}
