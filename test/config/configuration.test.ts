import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Configuration, type ConfigurationSources, type SettingChange } from '../../src/config/configuration.ts'
import { parseIni } from '../../src/config/ini-text.ts'
import {
  defaultSettings,
  environmentSettings,
  OperatorFiles,
  SettingFile,
  SettingMemory,
} from '../../src/config/setting-sources.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const configuration = (defaults: string, sources: Partial<ConfigurationSources> = {}): Promise<Configuration> =>
  Configuration.load({ defaults: parseIni(defaults), stored: new SettingMemory(), ...sources })

/** Hashes that can be recognized at a glance. */
const adminPasswords = {
  isHash: (value: string) => /^-hashed-[a-z]+$/.test(value),
  looksLikeHash: (value: string) => value.startsWith('-hashed-'),
  hash: async (plain: string, { scheme }: { scheme: string }) => `-hashed-${scheme}${plain}`,
}

describe('a configuration', () => {
  it('takes a setting from the last layer that has it', async () => {
    const folder = await temporaryFolder()
    await mkdir(join(folder, 'local.d'))
    await writeFile(join(folder, 'local.ini'), '[a]\nb = 2\nc = 2\nd = 2\ne = 2\nf = 2\ng = 2\n')
    await writeFile(join(folder, 'local.d', '10.ini'), '[a]\nc = 3\nd = 3\ne = 3\nf = 3\ng =\n')
    await writeFile(join(folder, 'local.d', '20.ini'), '[a]\nd = 4\ne = 4\nf = 4\n')
    await writeFile(join(folder, 'local.d', 'notes.txt'), '[a]\nd = no\n')
    const stored = new SettingMemory()
    await stored.save(parseIni('[a]\ne = 5\nf = 5'))
    const each = await configuration('[a]\na = 1\nb = 1\nc = 1\nd = 1\ne = 1\nf = 1\ng = 1\nh = 1\n', {
      files: new OperatorFiles(folder),
      stored,
      environment: environmentSettings({ SETTLE_A__F: '6', SETTLE_A__H: '6', SETTLE_LONG: '1', PATH: 'x' }),
      flags: parseIni('[a]\nh = 7'),
    })
    expect(Object.fromEntries(each.section('a'))).toEqual({
      a: '1',
      b: '2',
      c: '3',
      d: '4',
      e: '5',
      f: '6',
      h: '7',
    })
    expect(each.get('a', 'g')).toBeUndefined()
  })

  it('knows what a section was without any change at run time, of this process or an earlier one', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, 'local.ini'), '[service]\nb = 2\nc = 2\n')
    const stored = new SettingMemory()
    await stored.save(parseIni('[service]\na = stored\nb = stored\nnew = stored'))
    const each = await configuration('[service]\na = 1\nb = 1\n', {
      files: new OperatorFiles(folder),
      stored,
      environment: environmentSettings({ SETTLE_SERVICE__D: '3' }),
      flags: parseIni('[service]\ne = 4'),
    })
    await each.set('service', 'c', 'changed')
    await each.set('service', 'd', 'passing', { persist: false })
    await each.delete('service', 'e')
    expect(Object.fromEntries(each.startupSection('couchdb'))).toEqual({ a: '1', b: '2', c: '2', d: '3', e: '4' })
    expect(each.startupSection('unknown').size).toBe(0)
  })

  it('lets a change count at once over everything, and flags win again at the next start', async () => {
    const stored = new SettingMemory()
    const flags = parseIni('[a]\nx = 3')
    const first = await configuration('[a]\nx = 1', { stored, flags })
    expect(await first.set('a', 'x', '2')).toBe('3')
    expect(first.get('a', 'x')).toBe('2')
    await first.reload()
    expect(first.get('a', 'x')).toBe('2')
    expect((await configuration('[a]\nx = 1', { stored, flags })).get('a', 'x')).toBe('3')
    expect((await configuration('[a]\nx = 1', { stored })).get('a', 'x')).toBe('2')
  })

  it('forgets what was not to be stored when it is read again', async () => {
    const each = await configuration('[a]\nx = 1\ny = 1')
    await each.set('a', 'x', '2', { persist: false })
    await each.delete('a', 'y', { persist: false })
    await each.set('a', 'z', '2')
    expect([...each.section('a')]).toEqual([
      ['x', '2'],
      ['z', '2'],
    ])
    await each.reload()
    expect([...each.section('a')]).toEqual([
      ['x', '1'],
      ['y', '1'],
      ['z', '2'],
    ])
  })

  it('removes a setting of any layer for good, and gives its default where one must be', async () => {
    const stored = new SettingMemory()
    const each = await configuration('[a]\nx = 1', { stored })
    expect(await each.delete('a', 'x')).toBe('1')
    expect(await each.delete('a', 'x')).toBeUndefined()
    expect([each.get('a', 'x'), each.integer('a', 'x'), each.isRemoved('a', 'x')]).toEqual([undefined, 1, true])
    expect((await configuration('[a]\nx = 1', { stored })).get('a', 'x')).toBeUndefined()
    await each.set('a', 'x', '2')
    expect([each.get('a', 'x'), each.isRemoved('a', 'x')]).toEqual(['2', false])
  })

  it('derives values again with every change, also when it is read again', async () => {
    const each = await configuration('[a]\nx = 1')
    const derived = each.derive(() => [each.get('a', 'x'), ...each.removedKeys('a')])
    expect(derived.current).toEqual(['1'])
    await each.set('a', 'x', '2', { persist: false })
    expect(derived.current).toEqual(['2'])
    await each.delete('a', 'x', { persist: false })
    expect(derived.current).toEqual([undefined, 'x'])
    await each.reload()
    expect(derived.current).toEqual(['1'])
  })

  it('knows a section by the name that the family uses', async () => {
    const each = await configuration('[couchdb]\nuuid = u\n[couch_httpd_auth]\ntimeout = 600')
    expect(each.get('service', 'uuid')).toBe('u')
    expect(each.get('couchdb', 'uuid')).toBe('u')
    expect(each.integer('service_httpd_auth', 'timeout')).toBe(600)
    expect(each.get('service_http_auth', 'timeout')).toBe('600')
    expect(each.sections()).toEqual(['service', 'service_httpd_auth'])
  })

  it('refuses an invalid number, and a missing setting', async () => {
    const each = await configuration('[a]\nx = many')
    expect(() => each.integer('a', 'x')).toThrow('a/x is not an integer: many')
    expect(() => each.text('a', 'y')).toThrow('a/y has no value')
  })

  it('does not load what the server could not work with', async () => {
    const loading = configuration('[httpd]\nport = 1', { flags: parseIni('[httpd]\nport = x') })
    await expect(loading).rejects.toThrow('The setting httpd/port must be a port')
  })

  it.each([
    ['httpd', 'port', 'x'],
    ['httpd', 'port', '65536'],
    ['httpd', 'port', '-1'],
    ['httpd', 'bind_address', 'nonsense'],
    ['uuids', 'algorithm', 'nosuch'],
    ['uuids', 'max_count', ''],
    ['stats', 'rate', '0'],
    ['stats', 'samples', '[a]'],
    ['attachments', 'compression_level', '10'],
    ['service', 'max_dbs_open', '0'],
    ['couchdb', 'max_document_size', '4 GB'],
    ['couch_httpd_auth', 'timeout', 'soon'],
  ])('refuses to set %s/%s to %j', async (section, key, value) => {
    const each = await configuration('')
    await expect(each.set(section, key, value)).rejects.toThrow(/^The setting .* must be /)
    expect(each.sections()).toEqual([])
  })

  it.each(['a=b', '[a', ';a', 'a\nb', ' a', ''])('refuses the key %j, which no file can hold', async (key) => {
    const each = await configuration('')
    await expect(each.set('a', key, '1')).rejects.toThrow('A key is')
  })

  it('notifies its listeners of a change once it is stored, and waits for them', async () => {
    const each = await configuration('[a]\nx = 1')
    const heard: SettingChange[] = []
    const stop = each.onChange(async (change) => {
      await new Promise((resolve) => setImmediate(resolve))
      heard.push(change)
    })
    await each.set('a', 'x', '2')
    await each.delete('a', 'x')
    expect(heard).toEqual([
      { section: 'a', key: 'x', value: '2' },
      { section: 'a', key: 'x', value: undefined },
    ])
    stop()
    await each.set('a', 'x', '3')
    expect(heard).toHaveLength(2)
  })

  it('reads the files of the operator again, all of them or nothing', async () => {
    const folder = await temporaryFolder()
    const write = (text: string) => writeFile(join(folder, 'local.ini'), text)
    await write('[a]\nx = 1\ny = 1\nz = 1\n')
    const each = await configuration('[a]\nz = 0', { files: new OperatorFiles(folder), adminPasswords })
    await each.set('a', 'y', 'changed', { persist: false })
    const heard: SettingChange[] = []
    each.onChange((change) => {
      heard.push(change)
    })
    await write('[a]\nx = 2\ny = 2\nnew = 2\n[admins]\nann = secret\n[service_httpd_auth]\niterations = 10\n')
    await each.refresh()
    expect(heard).toEqual([
      { section: 'a', key: 'z', value: '0' },
      { section: 'a', key: 'x', value: '2' },
      { section: 'a', key: 'new', value: '2' },
      { section: 'admins', key: 'ann', value: '-hashed-simplesecret' },
      { section: 'service_httpd_auth', key: 'iterations', value: '10' },
    ])
    expect(each.get('a', 'y')).toBe('changed')
    expect(await readFile(join(folder, 'local.ini'), 'utf8')).toContain('ann = -hashed-simplesecret')
    await write('[a]\nx = 3\n[httpd]\nport = none\n')
    await expect(each.refresh()).rejects.toThrow('httpd/port')
    expect(each.get('a', 'x')).toBe('2')
  })

  it('makes no change that a guard refuses', async () => {
    const each = await configuration('[a]\nx = 1')
    const stop = each.beforeChange(({ value }) => {
      if (value === '2') throw new Error('not two')
    })
    await expect(each.set('a', 'x', '2')).rejects.toThrow('not two')
    expect(each.get('a', 'x')).toBe('1')
    stop()
    await each.set('a', 'x', '2')
    expect(each.get('a', 'x')).toBe('2')
  })

  it('keeps changes in a file of its own, also those made at the same time', async () => {
    const path = join(await temporaryFolder(), 'settings.ini')
    const load = () => configuration('', { stored: new SettingFile(path) })
    const first = await load()
    const values = ['plain', 'with = sign', '; no comment', 'a ; b', '"quoted"', 'größe', ' blanks ', '', 'a\nb', '\\"']
    await Promise.all(values.map((value, i) => first.set('a', `k${i}`, value)))
    const second = await load()
    expect(values.map((_, i) => second.get('a', `k${i}`))).toEqual(values)
    expect((await stat(path)).mode & 0o077).toBe(0)
    expect(await readFile(path, 'utf8')).toContain('[a]')
  })

  it('changes nothing when the file cannot be written', async () => {
    const each = await configuration('', {
      stored: { load: async () => new Map(), save: () => Promise.reject(new Error('no room')) },
    })
    await expect(each.set('a', 'x', '1')).rejects.toThrow('no room')
    expect(each.get('a', 'x')).toBeUndefined()
  })

  it('ships with the defaults of the interface', async () => {
    const defaults = await defaultSettings()
    const get = (section: string, key: string) => defaults.get(section)?.get(key)
    expect(get('httpd', 'port')).toBe('5984')
    expect(get('httpd', 'bind_address')).toBe('127.0.0.1')
    expect(get('uuids', 'algorithm')).toBe('sequential')
    expect(get('service', 'delayed_commits')).toBe('false')
    expect(get('service', 'max_dbs_open')).toBe('500')
    expect(get('uuids', 'utc_id_suffix')).toBeNull()
    expect(get('httpd', 'authentication_handlers')).toBe(
      '{service_httpd_oauth, oauth_authentication_handler}, {service_httpd_auth, cookie_authentication_handler}, ' +
        '{service_httpd_auth, default_authentication_handler}',
    )
    expect(get('httpd_global_handlers', '/')).toContain('handle_welcome_req')
  })
})

describe('a plain password of an administrator', () => {
  const DEFAULTS = '[service_httpd_auth]\niterations = 10\n'

  it('is hashed before it is stored', async () => {
    const stored = new SettingMemory()
    const each = await configuration(DEFAULTS, { stored, adminPasswords })
    await each.set('admins', 'ann', 'secret')
    expect(each.get('admins', 'ann')).toBe('-hashed-simplesecret')
    await each.set('service_httpd_auth', 'admin_password_scheme', 'pbkdf2')
    await each.set('admins', 'ann', 'secret')
    expect((await stored.load()).get('admins')?.get('ann')).toBe('-hashed-pbkdf2secret')
    await each.set('admins', 'ann', '-hashed-abc')
    expect(each.get('admins', 'ann')).toBe('-hashed-abc')
    await expect(each.set('admins', 'ann', '-hashed-1')).rejects.toThrow('A password cannot begin like a hash.')
  })

  it('is replaced in its line of a file, and nothing else of the file changes', async () => {
    const folder = await temporaryFolder()
    const path = join(folder, 'local.ini')
    const text = '; mine\n[admins]\nann = secret ; keep\r\n; bob = x\ncarl = -hashed-abc\n\n[httpd]\nport = 1 ; one\n'
    await writeFile(path, text, { mode: 0o640 })
    const load = () => configuration(DEFAULTS, { files: new OperatorFiles(folder), adminPasswords })
    expect((await load()).get('admins', 'ann')).toBe('-hashed-simplesecret')
    expect(await readFile(path, 'utf8')).toBe(text.replace('secret', '-hashed-simplesecret'))
    expect((await stat(path)).mode & 0o777).toBe(0o640)
    expect((await load()).get('admins', 'ann')).toBe('-hashed-simplesecret')
  })

  it('is hashed where the start of the server has it', async () => {
    const environment = environmentSettings({ SETTLE_ADMINS__ANN: 'secret' })
    const each = await configuration(DEFAULTS, { environment, adminPasswords })
    expect(each.get('admins', 'ann')).toBe('-hashed-simplesecret')
  })
})
