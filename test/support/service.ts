/** A service for one test, on a free port of this machine, gone when the test ends. */
import { onTestFinished } from 'vitest'
import type { Service, ServiceOptions } from '../../src/service.ts'
import { withQuickHashes } from './quick-hashes.ts'
import { storagePlace } from './storage-place.ts'
import { createTestService } from './test-service.ts'

/** Tests of clients run in the default dialect and in that of release 3. */
const inDialect: ServiceOptions = process.env.SETTLE_TEST_DIALECT === '3' ? { dialect: '3' } : {}

export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const place = await storagePlace(options)
  onTestFinished(place.remove)
  const service = await createTestService({ port: 0, ...inDialect, ...place.options, ...withQuickHashes(options) })
  onTestFinished(() => service.close())
  await service.listen()
  return service
}
