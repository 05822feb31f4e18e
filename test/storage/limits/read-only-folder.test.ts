import { spawnSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const OWN_NAMESPACE = ['--user', '--map-root-user', '--mount']
const READ_ONLY = 'mount --bind "$2" "$2" && mount -o remount,ro,bind "$2" && exec "$0" --no-warnings "$1" "$2"'

const canMount = spawnSync('unshare', [...OWN_NAMESPACE, 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0

it.runIf(canMount)('a folder that has become read-only is opened with all that a crash left in it', async () => {
  const folder = await temporaryFolder()
  const engine = await LmdbEngine.open({ folder })
  await engine.create('a')
  await engine.create('b')
  await engine.close()
  await writeFile(join(folder, 'c.9.mdb.new'), '')
  await writeFile(join(folder, '.trash', 'd.8.mdb'), '')
  await mkdir(join(folder, '.scratch', 'd.1'), { recursive: true })
  await writeFile(join(folder, `~${'0'.repeat(64)}.name`), 'e\n')
  await writeFile(join(folder, `~${'1'.repeat(64)}.name.new`), '')
  await writeFile(join(folder, 'f.7.mdb.set-aside'), 'It was damaged.\n')
  const script = join(import.meta.dirname, 'read-only-folder.ts')
  const { status, stdout, stderr } = spawnSync(
    'unshare',
    [...OWN_NAMESPACE, 'sh', '-c', READ_ONLY, process.execPath, script, folder],
    { encoding: 'utf8' },
  )
  expect([status, stdout, stderr]).toEqual([0, '["a","b"]', ''])
})
