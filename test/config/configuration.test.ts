import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Configuration, type SettingChange } from '../../src/config/configuration.ts'
import { defaultSettings } from '../../src/config/defaults.ts'
import { parseSettings, type SettingMap } from '../../src/config/setting-map.ts'
import { SettingFile, SettingMemory } from '../../src/config/setting-store.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const settings = (text: string): SettingMap => parseSettings(text)

async function configuration(defaults: string, overrides = ''): Promise<Configuration> {
  return Configuration.load({
    defaults: settings(defaults),
    overrides: settings(overrides),
    stored: new SettingMemory(),
  })
}

describe('a configuration', () => {
  it('takes a setting from overrides before stored changes before defaults', async () => {
    const each = await configuration('[a]\nx = 1\ny = 1\nz = 1', '[a]\nx = 3')
    await each.set('a', 'x', '2')
    await each.set('a', 'y', '2')
    expect(['x', 'y', 'z', 'none'].map((key) => each.get('a', key))).toEqual(['3', '2', '1', undefined])
    expect(Object.fromEntries(each.section('a'))).toEqual({ x: '3', y: '2', z: '1' })
    await each.set('a', 'y', undefined)
    expect(each.get('a', 'y')).toBe('1')
  })

  it('knows a section by the name that the family uses', async () => {
    const each = await configuration('[couchdb]\nuuid = u\n[couch_httpd_auth]\ntimeout = 600')
    expect(each.get('service', 'uuid')).toBe('u')
    expect(each.get('couchdb', 'uuid')).toBe('u')
    expect(each.integer('service_httpd_auth', 'timeout')).toBe(600)
  })

  it('refuses a number that is none, and a setting that is not there', async () => {
    const each = await configuration('[a]\nx = many')
    expect(() => each.integer('a', 'x')).toThrow('a/x is not an integer: many')
    expect(() => each.text('a', 'y')).toThrow('a/y has no value')
  })

  it('tells its listeners of a change once it is stored', async () => {
    const each = await configuration('[a]\nx = 1')
    const heard: SettingChange[] = []
    const stop = each.onChange((change) => heard.push(change))
    await each.set('a', 'x', '2')
    await each.set('a', 'x', undefined)
    stop()
    await each.set('a', 'x', '3')
    expect(heard).toEqual([
      { section: 'a', key: 'x', value: '2' },
      { section: 'a', key: 'x', value: '1' },
    ])
  })

  it('keeps changes in a file of its own, also those made at the same time', async () => {
    const path = join(await temporaryFolder(), 'settings.ini')
    const load = () => Configuration.load({ defaults: new Map(), overrides: new Map(), stored: new SettingFile(path) })
    const first = await load()
    const values = ['plain', 'with = sign', '; no comment', '"quoted"', 'größe', ' blanks ', '']
    await Promise.all(values.map((value, i) => first.set('a', `k${i}`, value)))
    const second = await load()
    expect(values.map((_, i) => second.get('a', `k${i}`))).toEqual(values)
    expect((await stat(path)).mode & 0o077).toBe(0)
    expect(await readFile(path, 'utf8')).toContain('[a]')
  })

  it('changes nothing when the file cannot be written', async () => {
    const folder = await temporaryFolder()
    await writeFile(join(folder, 'file'), '')
    const each = await Configuration.load({
      defaults: new Map(),
      overrides: new Map(),
      stored: { load: async () => new Map(), save: () => Promise.reject(new Error('no room')) },
    })
    await expect(each.set('a', 'x', '1')).rejects.toThrow('no room')
    expect(each.get('a', 'x')).toBeUndefined()
  })

  it('ships with the defaults of the interface', async () => {
    const defaults = await defaultSettings()
    expect(defaults.get('httpd')?.get('port')).toBe('5984')
    expect(defaults.get('httpd')?.get('bind_address')).toBe('127.0.0.1')
    expect(defaults.get('uuids')?.get('algorithm')).toBe('sequential')
  })
})
