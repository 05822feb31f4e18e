/** The administration interface in a browser, against a server of its own. Built once, by the command that `npm start` runs. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import { launchBrowser } from './browser.ts'
import { startService } from './service.ts'

const ROOT = join(import.meta.dirname, '../..')

/** One browser for the tests of a file; the interface is there when they begin. */
export function browserOfFile(): () => Browser {
  let browser: Browser | undefined
  beforeAll(async () => {
    execFileSync(process.execPath, [join(ROOT, 'scripts/build-ui.mjs')], { cwd: ROOT, stdio: 'pipe' })
    browser = await launchBrowser()
  }, 300_000)
  afterAll(() => browser?.close())
  return () => {
    if (!browser) throw new Error('The browser starts before the tests of the file.')
    return browser
  }
}

export interface OpenInterface {
  readonly page: Page
  /** `http://127.0.0.1:…/` */
  readonly url: string
  /** Goes to a screen, such as `#/databases`. */
  visit(hash: string): Promise<void>
  /** Sends a request as a client beside the browser. */
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
}

/** Everything that the page complains about, or asks of anybody else, fails the test. */
export async function openInterface(
  browser: Browser,
  { hash = '#/', url: given, ...options }: BrowserContextOptions & { hash?: string; url?: string } = {},
): Promise<OpenInterface> {
  const url = given ?? (await startService()).url
  const page = await (Object.keys(options).length === 0
    ? pageOfSharedContext(browser)
    : pageOfOwnContext(browser, options))
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => {
    if (
      message.type() === 'error' &&
      !/the server responded with a status of|ERR_CONNECTION|ERR_INTERNET/.test(message.text())
    ) {
      problems.push(message.text())
    }
  })
  page.on('request', (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(url)) problems.push(`asks ${request.url()}`)
  })
  onTestFinished(() => expect(problems).toEqual([]))
  await page.goto(`${url}_utils/${hash}`)
  return {
    page,
    url,
    visit: async (to) => {
      await page.goto(`${url}_utils/${to}`)
    },
    send: (method, path, body, headers = {}) =>
      fetch(url + path, {
        method,
        headers: { 'Content-Type': 'application/json', ...headers },
        ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      }),
  }
}

const USUAL: BrowserContextOptions = { viewport: { width: 1280, height: 760 }, reducedMotion: 'reduce' }

const sharedContexts = new WeakMap<Browser, Promise<BrowserContext>>()

/**
 * A window costs more than most tests do, so that those without wishes share one. Each has a server of its own, and so an origin
 * with a storage of its own; only cookies are for all ports of a host.
 */
async function pageOfSharedContext(browser: Browser): Promise<Page> {
  let sharing = sharedContexts.get(browser)
  if (!sharing) {
    sharing = browser.newContext(USUAL)
    sharedContexts.set(browser, sharing)
    // A window closes with its last page.
    await (await sharing).newPage()
  }
  const context = await sharing
  await context.setOffline(false)
  await context.clearCookies()
  const page = await context.newPage()
  onTestFinished(() => page.close())
  return page
}

async function pageOfOwnContext(browser: Browser, options: BrowserContextOptions): Promise<Page> {
  const context = await browser.newContext({ ...USUAL, ...options })
  onTestFinished(() => context.close())
  return context.newPage()
}

/** What is in the editor of the page. */
export async function editorText(page: Page): Promise<string> {
  const [text = ''] = await page.locator('.cm-content').first().allInnerTexts()
  return text
}

/** Replaces what is in the editor, as a person does. */
export async function typeInEditor(page: Page, text: string): Promise<void> {
  const content = page.locator('.cm-content').first()
  await content.click()
  await page.keyboard.press('ControlOrMeta+a')
  // Typed over coloured text, Chromium itself would try to keep the colour by an inline style.
  await page.keyboard.press('Delete')
  await page.keyboard.insertText(text)
}

/** However busy the machine is, what a page shows it shows by then. */
const SHOWN_MS = 60_000

export async function seen(page: Page, text: string | RegExp): Promise<void> {
  await page.getByText(text).first().waitFor({ timeout: SHOWN_MS })
}

export function button(page: Page, name: string | RegExp): Locator {
  return page.getByRole('button', { name })
}

/** `admin` with the password `secret-one`, who is then signed in. */
export async function createFirstAdministrator(page: Page): Promise<void> {
  await button(page, 'Create the first administrator').click()
  await page.getByLabel('Password', { exact: true }).fill('secret-one')
  await page.getByLabel('Password again').fill('secret-one')
  await button(page, 'Create and sign in').click()
  await seen(page, 'admin is now the administrator of this server.')
}
