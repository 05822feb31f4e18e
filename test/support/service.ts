/** A service for one test, on a free port of this machine, gone when the test ends. */
import { onTestFinished } from 'vitest'
import { createService, type Service, type ServiceOptions } from '../../src/service.ts'
import { storagePlace } from './storage-place.ts'

export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const place = await storagePlace(options)
  onTestFinished(place.remove)
  const service = await createService({ port: 0, ...place.options, ...options })
  onTestFinished(() => service.close())
  await service.listen()
  return service
}
