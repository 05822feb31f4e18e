/**
 * Black-box tests on several servers that share a PostgreSQL: each has a folder of its own, and a load balancer before them
 * gives every connection to the next one.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hashAdminPassword, isAdminHash } from '../../src/auth/passwords/passwords.ts'
import { createService, type Service, type ServiceOptions } from '../../src/service.ts'
import { Balancer } from './balancer.ts'
import { parentFolder } from './parent-folder.ts'
import { QUICK_ITERATIONS } from './quick-hashes.ts'

type Settings = NonNullable<ServiceOptions['settings']>

export class ServersOnPostgres implements Service {
  readonly secondaries = undefined
  readonly #options: ServiceOptions
  readonly #count: number
  readonly #folders: string[] = []
  readonly #servers: Service[] = []
  readonly #balancers: Balancer[] = []

  constructor(options: ServiceOptions, count: number) {
    this.#options = options
    this.#count = count
  }

  get url(): string {
    const [url] = this.urls
    if (url === undefined) throw new Error('The service does not listen yet.')
    return url
  }

  get urls(): readonly string[] {
    return this.#balancers.map(({ url }) => url)
  }

  async listen(): Promise<string> {
    const settings = await withHashedAdmins(this.#options)
    for (let number = 0; number < this.#count; number++) {
      const server = await createService({ ...this.#options, settings, dir: await this.#folder(number), port: 0 })
      this.#servers.push(server)
      await server.listen()
    }
    const { port = 0 } = this.#options
    for (const place of this.#servers[0]?.urls.keys() ?? []) {
      const balancer = new Balancer(() => this.#servers.map((server) => server.urls[place] ?? ''))
      this.#balancers.push(balancer)
      await balancer.listen(place === 0 ? port : 0)
    }
    return this.url
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()))
    for (const balancer of this.#balancers) balancer.close()
    for (const folder of this.#folders) await rm(folder, { recursive: true, force: true })
  }

  /** The first one has the folder that the test knows. */
  async #folder(number: number): Promise<string> {
    const { dir } = this.#options
    if (number === 0 && dir !== undefined) return dir
    const folder = await mkdtemp(join(await parentFolder(), 'settle-test-'))
    this.#folders.push(folder)
    return folder
  }
}

/** As an operator of several servers would: an administrator has sessions in all of them where the hash is the same. */
async function withHashedAdmins({ settings = {}, dialect }: ServiceOptions): Promise<Settings> {
  const iterations = Number(QUICK_ITERATIONS)
  const isSimple = dialect !== '3' && settings.service_httpd_auth?.admin_password_scheme !== 'pbkdf2'
  const how = isSimple
    ? ({ scheme: 'simple', iterations } as const)
    : ({ scheme: 'pbkdf2', digest: 'sha256', iterations } as const)
  const hash = (password: string) => (isAdminHash(password) ? password : hashAdminPassword(password, how))
  const admins = Object.entries(settings.admins ?? {})
  const hashed = await Promise.all(admins.map(async ([name, password]) => [name, await hash(password)] as const))
  return { ...settings, admins: Object.fromEntries(hashed) }
}
