/** What holds for every screen: axe finds nothing in either theme, a phone of 360 px shows it, and it loads soon. */
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { browserOfFile, openInterface } from '../support/interface.ts'
import { fillWithSample, SCREENS } from '../support/interface-sample.ts'

const browser = browserOfFile()
const axeFile = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

/** Data is there, and nothing is being loaded. */
async function settled(page: Page): Promise<void> {
  await page.locator('main').waitFor()
  await page.locator('h1').first().waitFor()
  await expect.poll(() => page.locator('[aria-busy=true]').count()).toBe(0)
}

interface Finding {
  readonly id: string
  readonly nodes: readonly { readonly target: unknown; readonly failureSummary: string }[]
}

/** Of the dark theme only the colours are another matter. They are those of a few parts, so that some screens show them all. */
const DARK_EVERY = process.env.SETTLE_LONG === '1' ? 1 : 3

/** In the light theme, or in both. */
async function findingsOf(page: Page, name: string, { isBoth = true } = {}): Promise<string[]> {
  const light = await findings(page, 'light')
  if (!isBoth) return light.map((finding) => `${name}: ${finding}`)
  await page.emulateMedia({ colorScheme: 'dark' })
  const dark = await findings(page, 'dark')
  await page.emulateMedia({ colorScheme: 'light' })
  return [...light.map((finding) => `${name}: ${finding}`), ...dark.map((finding) => `${name}, dark: ${finding}`)]
}

async function findings(page: Page, theme: 'light' | 'dark'): Promise<string[]> {
  const rules = theme === 'light' ? '' : ', runOnly: ["color-contrast"]'
  const { violations }: { violations: Finding[] } = await page.evaluate(
    `axe.run(document, { resultTypes: ["violations"]${rules} })`,
  )
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${JSON.stringify(target)} ${failureSummary}`),
  )
}

describe('every screen of the administration interface', () => {
  it('is accessible in both themes', { timeout: 600_000 }, async () => {
    // The policy of the page lets no script in, not even that of the test.
    const { page, url, visit } = await openInterface(browser(), { colorScheme: 'light', bypassCSP: true })
    await fillWithSample(url)
    await page.addScriptTag({ path: axeFile })
    const found: string[] = []
    for (const [i, [name, hash]] of SCREENS.entries()) {
      await visit(hash)
      await settled(page)
      found.push(...(await findingsOf(page, name, { isBoth: i % DARK_EVERY === 0 })))
    }
    await visit('#/databases')
    await page.getByRole('button', { name: 'New database' }).click()
    found.push(...(await findingsOf(page, 'dialog')))
    await page.keyboard.press('Escape')
    await page.keyboard.press('ControlOrMeta+k')
    await page.getByRole('combobox').waitFor()
    found.push(...(await findingsOf(page, 'palette')))
    expect(found).toEqual([])
  })

  it('fits a phone of 360 px', async () => {
    const { page, url, visit } = await openInterface(browser(), { viewport: { width: 360, height: 720 } })
    await fillWithSample(url)
    for (const [name, hash] of SCREENS) {
      await visit(hash)
      await settled(page)
      expect(await page.evaluate('document.documentElement.scrollWidth'), name).toBe(360)
    }
    await visit('#/databases')
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.getByRole('link', { name: 'Log' }).click()
    await page.getByRole('heading', { name: 'Log' }).waitFor()
    await visit('#/db/recipes/documents')
    await page
      .getByRole('row', { name: /borscht/ })
      .first()
      .click()
    await page.getByRole('button', { name: 'Back to the list' }).click()
    await page
      .getByRole('row', { name: /borscht/ })
      .first()
      .waitFor()
  })

  it('is loaded with less than 200 KB, and without the editor', async () => {
    const { page, url } = await openInterface(browser(), { hash: '#/databases' })
    await page.getByRole('heading', { name: 'Databases' }).waitFor()
    const entries: { name: string; encodedBodySize: number }[] = await page.evaluate(
      'performance.getEntriesByType("resource").map(({ name, encodedBodySize }) => ({ name, encodedBodySize }))',
    )
    const files = entries.filter(({ name }) => name.startsWith(`${url}_utils/`))
    const document = (await (await fetch(`${url}_utils/`, { headers: { 'Accept-Encoding': 'br' } })).arrayBuffer())
      .byteLength
    const total = files.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, document)
    expect(files.some(({ name }) => name.includes('editor'))).toBe(false)
    expect(total).toBeGreaterThan(50_000)
    expect(total).toBeLessThan(200_000)
  })

  it('shows content soon after the request', async () => {
    const { page } = await openInterface(browser(), { hash: '#/databases' })
    await page.getByRole('heading', { name: 'Databases' }).waitFor()
    const firstPaintMs: number = await page.evaluate(
      'performance.getEntriesByName("first-contentful-paint")[0].startTime',
    )
    if (process.env.SETTLE_SHOW) console.log(Math.round(firstPaintMs), 'ms to the first picture')
    // Half a second on two cores with other work on them; a machine may be busier.
    expect(firstPaintMs).toBeLessThan(5_000)
  })
})
