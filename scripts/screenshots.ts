/**
 * Takes pictures of the main screens of the administration interface into `docs/images`: `npm run screenshots`. A server
 * in memory, filled with the sample of the tests, is what they show.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type BrowserContextOptions, chromium } from 'playwright-core'
import { createService } from '../src/service.ts'
import { fillWithSample } from '../test/support/interface-sample.ts'

const FOLDER = join(import.meta.dirname, '../docs/images')
const DESKTOP = { viewport: { width: 1280, height: 720 } }
const PHONE = { viewport: { width: 360, height: 720 }, deviceScaleFactor: 2 }
const DARK = { colorScheme: 'dark' as const }

const PICTURES: readonly (readonly [name: string, hash: string, options: BrowserContextOptions])[] = [
  ['overview', '#/', DESKTOP],
  ['document', '#/db/recipes/documents/fish-stew', DESKTOP],
  ['history', '#/db/recipes/documents/rice?tab=history', { ...DESKTOP, ...DARK }],
  ['views', '#/db/recipes/views/by/views/tags?group=true&group_level=1&look=chart', DESKTOP],
  ['query', '#/db/recipes/query?selector=%7B%22servings%22%3A%7B%22%24gte%22%3A4%7D%7D', { ...DESKTOP, ...DARK }],
  ['phone', '#/db/recipes/documents', PHONE],
]

/** Charts need some readings, and nothing moves any more. */
const SETTLING_MS = 6_000

const service = await createService({ port: 0, inMemory: true })
const url = await service.listen()
await fillWithSample(url)
await fetch(`${url}_config/admins/ada`, { method: 'PUT', body: '"a secret"' })
const browser = await chromium.launch({
  executablePath: process.env.SETTLE_BROWSER ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
})
await mkdir(FOLDER, { recursive: true })
try {
  for (const [name, hash, options] of PICTURES) {
    const context = await browser.newContext(options)
    await context.request.post(`${url}_session`, { data: { name: 'ada', password: 'a secret' } })
    const page = await context.newPage()
    await page.goto(`${url}_utils/${hash}`)
    await page.waitForTimeout(SETTLING_MS)
    await page.screenshot({ path: join(FOLDER, `${name}.png`) })
    await context.close()
  }
} finally {
  await browser.close()
  await service.close()
}
