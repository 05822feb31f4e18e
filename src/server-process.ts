/**
 * The process of the server. It is started by its supervisor, the `settle` command, and shuts down when the supervisor
 * says so or is gone. Without a supervisor it runs as well, but is not restarted.
 */
import { rm } from 'node:fs/promises'
import { enableCompileCache } from 'node:module'
import { commandFlags, fail } from './command-flags.ts'
import { boundHeapGrowth, keepTickObject, optimizeEarly } from './runtime/engine-tuning.ts'
import type { LineLog } from './runtime/log/log.ts'
import { startReaperAhead } from './runtime/processes/reaper.ts'
import type { SecondaryService } from './secondary-service.ts'
import type { SupervisorLink } from './supervisor/supervisor-link.ts'

/** Without its supervisor a server has less time to finish: the next one may be waiting for the folder. */
const ORPHAN_LIMIT_MS = 5_000

async function main(): Promise<void> {
  const { LineLog } = await import('./runtime/log/log.ts')
  const { SupervisorLink } = await import('./supervisor/supervisor-link.ts')
  const options = commandFlags().service
  const log = new LineLog('warn', process.stderr, { dated: false })
  const link = SupervisorLink.connect()
  const start = await link?.started
  if (link && start?.secondary !== undefined && start.nodeFolder !== undefined) {
    await serveBesidePrimary(link, start.secondary, start.nodeFolder, log)
    return
  }
  const { createService, version } = await import('./service.ts')
  startReaperAhead()
  const { previousEnd, term = 1, startedMs, nodeFolder } = start ?? {}
  const service = await createService({
    ...options,
    environment: process.env,
    log,
    onFailure: fail,
    ...(link && {
      supervisor: {
        takeLease: (folder) => link.takeLease(folder),
        sockets: link,
        previousEnd,
        term,
        startedMs,
        nodeFolder,
        onConnection: link.onConnection,
      },
    }),
  })
  const url = await service.listen().catch(async (error: unknown) => {
    await service.close()
    throw error
  })
  stopWhenAsked(link, log, async () => {
    await service.close()
    // Its supervisor removes it otherwise.
    const { secondaries } = service
    if (secondaries && !process.connected) await rm(secondaries.folder, { recursive: true, force: true })
  })
  link?.ready(service.secondaries)
  if (previousEnd === undefined) {
    const folder = options.dir ?? process.env.SETTLE_SERVICE__DATABASE_DIR ?? './data'
    const where = options.inMemory ? 'in memory' : `in ${folder}`
    const people = `Open ${url}_utils/ in a browser.`
    process.stdout.write(
      `Settle ${version} is ready at ${url} with its data ${where}. ${people} Stop it with Ctrl-C.\n`,
    )
  }
}

/** A secondary: the primary has the data, the supervisor the sockets. */
async function serveBesidePrimary(link: SupervisorLink, number: number, folder: string, log: LineLog): Promise<void> {
  const { createSecondary } = await import('./secondary-service.ts')
  const options = { ...commandFlags().service, environment: process.env }
  let service: SecondaryService | undefined
  // It may be stopped while it still waits for the primary.
  stopWhenAsked(link, log, async () => service?.close())
  const sockets = link.sharedSockets
  service = await createSecondary({ service: options, folder, number, sockets, sender: link, log })
  await service.listen()
  link.ready()
}

function stopWhenAsked(link: SupervisorLink | undefined, log: LineLog, close: () => Promise<void>): void {
  const stop = () => void close().then(() => process.exit(0), fail)
  // A terminal sends signals to the supervisor and to us; the supervisor forwards them.
  let isStopping = false
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (isStopping && !link) process.exit(130)
      isStopping = true
      stop()
    })
  }
  link?.onStop(stop)
  link?.onLost(() => {
    log.warn('The supervisor is gone. The server shuts down.')
    setTimeout(() => process.exit(1), ORPHAN_LIMIT_MS).unref()
    stop()
  })
}

keepTickObject()
optimizeEarly()
boundHeapGrowth()
enableCompileCache()
// It was created for this process alone.
delete process.env.NODE_COMPILE_CACHE
main().catch(fail)
