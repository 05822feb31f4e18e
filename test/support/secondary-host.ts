/** A process that holds secondary nodes for tests, one after the other or several at once: cheaper than a process for each. */
import { LineLog } from '../../src/runtime/log/log.ts'
import { createSecondary, type SecondaryService } from '../../src/secondary-service.ts'
import type { HostMessage, HostReply } from './secondary-pool.ts'

const services = new Map<number, SecondaryService>()
const log = new LineLog('error', process.stderr, { dated: false })

async function handle(message: HostMessage): Promise<HostReply> {
  const { id } = message
  if (message.kind === 'stop') {
    await services.get(message.secondary)?.close()
    services.delete(message.secondary)
    return { id }
  }
  let port = 0
  const sockets = {
    take: async () => undefined,
    keep: (address: { readonly port: number; readonly isSecure: boolean }) => {
      if (!address.isSecure) port = address.port
    },
    keepOnly: async () => {},
  }
  const { options, folder } = message
  const service = await createSecondary({ service: options, folder, number: id, sockets, log })
  services.set(id, service)
  await service.listen()
  return { id, port }
}

process.on('message', (message: HostMessage) => {
  handle(message).then(
    (reply) => process.send?.(reply),
    (error: unknown) => process.send?.({ id: message.id, error: String(error) }),
  )
})
process.on('disconnect', () => process.exit(0))
