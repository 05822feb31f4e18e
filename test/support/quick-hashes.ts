/** Settings of services for tests, with hashes that take next to no time unless a test says otherwise. */
import type { ServiceOptions } from '../../src/service.ts'

export const QUICK_ITERATIONS = '10'

export function withQuickHashes(options: ServiceOptions): ServiceOptions {
  const { settings = {} } = options
  const auth = { iterations: QUICK_ITERATIONS, ...settings.service_httpd_auth }
  return { ...options, settings: { ...settings, service_httpd_auth: auth } }
}
