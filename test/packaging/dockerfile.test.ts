import { execFile } from 'node:child_process'
import { access, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { Client } from '../support/client.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { dockerfile, ROOT } from './dockerfile.ts'

const run = promisify(execFile)

describe('the Dockerfile', () => {
  it('has two stages on one image, of the Node that the package wants', async () => {
    const { stages } = await dockerfile()
    expect(stages).toHaveLength(2)
    const images = stages.map(({ image }) => image)
    expect(new Set(images).size).toBe(1)
    const { engines }: { engines: { node: string } } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    expect(images[0]).toContain(`node:${engines.node.replace('>=', '')}-`)
  })

  it('copies what is there and not ignored', async () => {
    const { stages } = await dockerfile()
    const allowed = (await readFile(join(ROOT, '.dockerignore'), 'utf8'))
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1))
    const copied = stages
      .flatMap(({ steps }) => steps)
      .filter(({ name, text }) => name === 'COPY' && !text.startsWith('--from'))
    for (const { text } of copied) {
      for (const path of text.split(' ').slice(0, -1)) {
        await access(join(ROOT, path))
        expect(
          allowed.some((each) => path === each || path.startsWith(`${each}/`)),
          path,
        ).toBe(true)
      }
    }
  })

  it('runs as a user without rights, with a volume, a port and what package.json names as the command', async () => {
    const last = (await dockerfile()).stages.at(-1)
    const step = (name: string) => last?.steps.find((each) => each.name === name)?.text
    expect(step('USER')).toBe('settle')
    expect(step('VOLUME')).toBe('/data')
    expect(step('EXPOSE')).toBe('5984')
    expect(JSON.parse(step('CMD') ?? '')).toEqual(['--dir', '/data', '--bind', '0.0.0.0'])
    const { bin }: { bin: { settle: string } } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    expect(await readFile(join(ROOT, 'examples/docker/entrypoint.sh'), 'utf8')).toContain(`/opt/settle/${bin.settle} `)
  })

  it('has a health check that knows a healthy server from one that is not', async () => {
    const last = (await dockerfile()).stages.at(-1)
    const text = last?.steps.find(({ name }) => name === 'HEALTHCHECK')?.text ?? ''
    const [, ...args]: string[] = JSON.parse(text.slice(text.indexOf('[')))
    const client = new Client((await startService({})).url)
    const check = () =>
      run(process.execPath, args, { env: { SETTLE_HTTPD__PORT: client.url.port } }).then(
        () => 0,
        ({ code }: { code: number }) => code,
      )
    expect(await check()).toBe(0)
    await client.request('PUT', '/_config/service/maintenance_mode', { body: '"true"' })
    expect(await check()).toBe(1)
  })

  it('refuses to start without an administrator', async () => {
    const script = await readFile(join(ROOT, 'examples/docker/entrypoint.sh'), 'utf8')
    const folder = await temporaryFolder()
    await mkdir(join(folder, 'local.d'))
    const here = script
      .replaceAll('/data/', `${folder}/`)
      .replaceAll('exec node /opt/settle/dist/cli.js', 'exec echo started')
    const file = join(folder, 'entrypoint.sh')
    await writeFile(file, here)
    const start = (environment: Record<string, string>, ...args: string[]) =>
      run('/bin/sh', [file, ...args], { env: { PATH: process.env.PATH ?? '', ...environment } }).then(
        ({ stdout }) => stdout.trim(),
        ({ stderr }: { stderr: string }) => stderr.trim(),
      )
    expect(await start({}, '--dir', '/data')).toContain('There is no administrator')
    expect(await start({ SETTLE_ADMINS__ANN: 'x' }, '--dir', '/data')).toBe('started --dir /data')
    expect(await start({ SETTLE_ALLOW_OPEN: 'yes' }, '--dir', '/data')).toBe('started --dir /data')
    expect(await start({}, 'backup', '--help')).toBe('started backup --help')
    await writeFile(join(folder, 'local.ini'), '[admins]\n[log]\nlevel = info\n')
    expect(await start({}, '--dir', '/data')).toContain('There is no administrator')
    await writeFile(join(folder, 'local.d', 'a.ini'), '[log]\nlevel = info\n[admins]\nann = secret\n')
    expect(await start({}, '--dir', '/data')).toBe('started --dir /data')
  })
})
