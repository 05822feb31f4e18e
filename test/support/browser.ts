/** A page in a real browser, gone with the test. Chromium of the system, or the one that SETTLE_BROWSER names. */
import { type Browser, chromium, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'

export async function openPage(url: string): Promise<Page> {
  const browser = await launchBrowser()
  onTestFinished(() => browser.close())
  const page = await browser.newPage()
  await page.goto(url)
  return page
}

/** To be closed by whoever launched it. */
export function launchBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.SETTLE_BROWSER ?? '/usr/bin/chromium',
    // Root has no sandbox in Chromium; the rest keeps it from asking for hosts of the internet.
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  })
}
