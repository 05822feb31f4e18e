/** The administration interface while its server is stopped and started again, and with a server of dialect 3. */
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  browserOfFile,
  button,
  createFirstAdministrator,
  editorText,
  openInterface,
  seen,
  typeInEditor,
} from '../support/interface.ts'
import { startService } from '../support/service.ts'
import { SettleCommand } from '../support/settle-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const browser = browserOfFile()

describe('the administration interface', () => {
  it('continues where it was after its server was stopped and started again', { timeout: 120_000 }, async () => {
    const folder = await temporaryFolder()
    const first = new SettleCommand(['--dir', folder, '--port', '0'])
    const url = `${new URL('/', await first.url)}`
    const { page, send, visit } = await openInterface(browser(), { url })
    await send('PUT', 'db')
    await send('PUT', 'db/before', {})
    const feed = await page.context().newPage()
    onTestFinished(() => feed.close())
    await feed.goto(`${url}_utils/#/db/db/changes`)
    await seen(feed, 'before')
    await visit('#/db/db/documents?new=1')
    await typeInEditor(page, '{"_id": "kept", "n": 12345678901234567890}')
    first.process.kill('SIGTERM')
    await first.ended
    await button(page, 'Create document').click()
    await seen(page, 'The server does not respond.')
    expect(await editorText(page)).toContain('12345678901234567890')
    const second = new SettleCommand(['--dir', folder, '--port', new URL(url).port])
    await second.url
    await button(page, 'Create document').click()
    await seen(page, 'Saved as revision 1.')
    await page.getByText('The server does not respond.').waitFor({ state: 'detached' })
    await seen(feed, 'kept')
    await feed.getByText('The server does not respond.').waitFor({ state: 'detached' })
    expect(await (await send('GET', 'db/kept')).text()).toContain('12345678901234567890')
  })

  it('works with a server of dialect 3', async () => {
    const { url } = await startService({ dialect: '3' })
    const { page, send, visit } = await openInterface(browser(), { url })
    await createFirstAdministrator(page)
    await visit('#/databases')
    await button(page, 'New database').click()
    await page.getByLabel('Name', { exact: true }).fill('db')
    await button(page, 'Create database').click()
    await seen(page, 'No documents yet')
    await visit('#/db/db/documents?new=1')
    await typeInEditor(page, '{"_id": "doc", "size": 9}')
    await button(page, 'Create document').click()
    await seen(page, 'Saved as revision 1.')
    // The editor of the stored document takes the place of the one of the new document.
    await expect.poll(() => editorText(page)).toContain('"_rev"')
    await typeInEditor(page, (await editorText(page)).replace('"size": 9', '"size": 12345678901234567890'))
    await button(page, 'Review and save').click()
    await button(page, 'Save document').click()
    await seen(page, 'Saved as revision 2.')
    // An upload names the revision that is shown: the stored document is loaded by then.
    await seen(page, /^2-[0-9a-f]{8}$/)
    const file = { name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('a note') }
    await visit('#/db/db/documents/doc?tab=attachments')
    await page.locator('input[type=file]').setInputFiles(file)
    await seen(page, 'note.txt attached.')
    await visit('#/db/db/query')
    await typeInEditor(page, '{"size": {"$gt": 5}}')
    await button(page, 'Run query').click()
    await page.getByRole('row', { name: /doc/ }).waitFor()
    await visit('#/db/db/changes')
    await seen(page, 'doc')
    await visit('#/users')
    await button(page, 'New user').click()
    await page.getByLabel('Name', { exact: true }).fill('ada')
    await page.getByLabel('Password').fill('secret-two')
    await button(page, 'Create user').click()
    await seen(page, 'User ada created.')
    await button(page, /^Account/).click()
    await page.getByRole('menuitem', { name: 'Sign out' }).click()
    await visit('#/sign-in')
    await page.getByLabel('Name').fill('admin')
    await page.getByLabel('Password').fill('secret-one')
    await button(page, 'Sign in').click()
    await seen(page, 'Totals since the start')
    const headers = { Authorization: `Basic ${Buffer.from('admin:secret-one').toString('base64')}` }
    expect(await (await send('GET', 'db/doc', undefined, headers)).text()).toContain('"size":12345678901234567890')
  })
})
