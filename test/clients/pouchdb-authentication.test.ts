/** pouchdb-authentication, as it is: sign-up, login, a new password, logout. */
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import type { Dialect } from '../../src/config/dialect.ts'
import { startService } from '../support/service.ts'

interface Pouch {
  signUp(name: string, password: string, options?: object): Promise<object>
  logIn(name: string, password: string): Promise<object>
  logOut(): Promise<object>
  getSession(): Promise<{ userCtx: { name: string | null } }>
  getUser(name: string): Promise<object>
  putUser(name: string, options: object): Promise<object>
  changePassword(name: string, password: string): Promise<object>
  put(document: object): Promise<object>
}

const require = createRequire(import.meta.url)
const PouchDB: { new (url: string, options: object): Pouch; plugin(plugin: object): void } = require('pouchdb')
PouchDB.plugin(require('pouchdb-authentication'))

const DIALECTS: readonly Dialect[] = ['1.6', '3']

describe.each(DIALECTS)('pouchdb-authentication in dialect %s', (dialect) => {
  it('signs up, logs in, changes the password and logs out', async () => {
    const { url } = await startService({ dialect, settings: { admins: { root: 'top' } } })
    await fetch(`${url}db`, { method: 'PUT', headers: { Authorization: `Basic ${btoa('root:top')}` } })
    const db = new PouchDB(`${url}db`, { skip_setup: true })
    expect(await db.signUp('mia', 'pass', { metadata: { town: 'Ulm' } })).toMatchObject({ ok: true })
    await expect(db.signUp('mia', 'other')).rejects.toMatchObject({ status: 409 })
    await expect(db.logIn('mia', 'wrong')).rejects.toMatchObject({ status: 401 })
    expect(await db.logIn('mia', 'pass')).toMatchObject({ ok: true, name: 'mia' })
    expect((await db.getSession()).userCtx.name).toBe('mia')
    expect(await db.getUser('mia')).toMatchObject({ name: 'mia', town: 'Ulm' })
    await db.putUser('mia', { metadata: { town: 'Bern' } })
    expect(await db.getUser('mia')).toMatchObject({ town: 'Bern' })
    await db.put({ _id: 'doc' })
    await db.changePassword('mia', 'new')
    await expect(db.logIn('mia', 'pass')).rejects.toMatchObject({ status: 401 })
    expect(await db.logIn('mia', 'new')).toMatchObject({ ok: true })
    expect(await db.logOut()).toMatchObject({ ok: true })
    expect((await db.getSession()).userCtx.name).toBe(null)
  })
})
