/** A service for one test, on a free port of this machine, gone when the test ends. */
import { onTestFinished } from 'vitest'
import { createService, type Service, type ServiceOptions } from '../../src/service.ts'
import { temporaryFolder } from './temporary-folder.ts'

export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const dir = options.inMemory ? {} : { dir: options.dir ?? (await temporaryFolder()) }
  const service = await createService({ port: 0, ...dir, ...options })
  onTestFinished(() => service.close())
  await service.listen()
  return service
}
