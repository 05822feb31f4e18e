import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect as connectSecurely } from 'node:tls'
import { describe, expect, it, onTestFinished } from 'vitest'
import { certificate } from '../support/certificate.ts'
import { Client, RawConnection, rawRequest } from '../support/client.ts'
import { isRunning, SettleCommand } from '../support/settle-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const JSON_TYPE = { 'Content-Type': 'application/json' }
/** On a connection of its own, which must never be refused. */
function statusOf(url: string, { method = 'GET', body = '' } = {}): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent: false, method }, (reply) => {
      reply.resume().on('end', () => resolve(reply.statusCode))
    })
    sent.on('error', reject).end(body)
  })
}

describe.runIf(process.platform === 'linux')('the supervisor', () => {
  it('starts a server again that was killed, on the same port and with the same data; clients wait', async () => {
    const command = new SettleCommand(['--port', '0', '--dir', await temporaryFolder()])
    const url = await command.url
    const database = await new Client(url).database()
    await database.save('doc', { a: 1 })
    for (let round = 1; round <= 3; round++) {
      const before = await command.serverPid()
      process.kill(before, 'SIGKILL')
      await until(() => !isRunning(before))
      expect(await statusOf(url)).toBe(200)
      expect(await command.serverPid(before)).not.toBe(before)
      expect(await (await fetch(`${url}${database.name}/doc`)).json()).toMatchObject({ a: 1 })
    }
    expect(command.err).toMatch(/The server ended by SIGKILL after [\d.]+ s\. It is restarted in 0 s\.\n/)
    expect(command.err).toMatch(/It is restarted in 0\.1 s\.[\s\S]*It is restarted in 0\.2 s\./)
    expect(command.err).toMatch(/The server is ready again after [\d.]+ s\.\n/)
    expect(await (await fetch(`${url}_log?bytes=100000`)).text()).toContain('The server ended by SIGKILL after')
    command.process.kill('SIGTERM')
    const { code, out } = await command.ended
    expect(code).toBe(0)
    expect(out.trim().split('\n')).toHaveLength(1)
  })

  it('under load: open connections may break, new ones are answered, and nothing acknowledged is lost', async () => {
    const command = new SettleCommand(['--port', '0', '--dir', await temporaryFolder()])
    const url = await command.url
    await fetch(`${url}db`, { method: 'PUT' })
    const acknowledged: string[] = []
    const failures = new Set<string>()
    let isOver = false
    const write = async (writer: number) => {
      for (let i = 0; !isOver; i++) {
        const id = `${writer}-${i}`
        const status = await statusOf(`${url}db/${id}`, { method: 'PUT', body: '{}' }).catch((error: Error) => {
          failures.add(error.message.replace(/[\d.:]+$/, ''))
        })
        if (status === 201) acknowledged.push(id)
      }
    }
    const writers = [1, 2, 3, 4].map(write)
    for (let round = 0; round < 2; round++) {
      const reached = acknowledged.length + 50
      await expect.poll(() => acknowledged.length).toBeGreaterThan(reached)
      process.kill(await command.serverPid(), 'SIGKILL')
    }
    const reached = acknowledged.length + 50
    await expect.poll(() => acknowledged.length).toBeGreaterThan(reached)
    isOver = true
    await Promise.all(writers)
    // Of requests that had been sent.
    expect([...failures].filter((failure) => !/ECONNRESET|socket hang up|EPIPE/.test(failure))).toEqual([])
    const { rows } = (await (await fetch(`${url}db/_all_docs`)).json()) as { rows: { id: string }[] }
    const present = new Set(rows.map(({ id }) => id))
    expect(acknowledged.filter((id) => !present.has(id))).toEqual([])
  })

  it('ends with its server when that ends in order, and keeps its start message to one', async () => {
    const command = new SettleCommand(['--port', '0', '--in-memory'])
    await command.url
    process.kill(await command.serverPid(), 'SIGTERM')
    expect(await command.ended).toMatchObject({ code: 0, err: '' })
  })

  it('says that what was in memory is lost', async () => {
    const command = new SettleCommand(['--port', '0', '--in-memory'])
    const url = await command.url
    await fetch(`${url}db`, { method: 'PUT' })
    process.kill(await command.serverPid(), 'SIGSEGV')
    await expect.poll(() => command.err).toContain('ready again')
    expect(command.err).toMatch(/ended by SIGSEGV after [\d.]+ s\. What it had in memory is lost\./)
    expect((await fetch(`${url}db`)).status).toBe(404)
  })

  it('keeps the folder for its server while that is down', async () => {
    const dir = await temporaryFolder()
    const first = new SettleCommand(['--port', '0', '--dir', dir])
    await first.url
    process.kill(await first.serverPid(), 'SIGKILL')
    const { code, err } = await new SettleCommand(['--port', '0', '--dir', dir]).ended
    expect(code).toBe(1)
    expect(err).toContain('is in use by another process')
  })

  it('takes its server with it when it is killed, and leaves folder and port to the next one', async () => {
    const dir = await temporaryFolder()
    const first = new SettleCommand(['--port', '0', '--dir', dir])
    const url = await first.url
    await fetch(`${url}db`, { method: 'PUT' })
    const pid = await first.serverPid()
    // A request that does not end keeps the server from ending at once.
    const slow = await RawConnection.open(new URL(url))
    slow.write(rawRequest(['PUT /db/doc HTTP/1.1', 'Host: x', 'Content-Length: 2']))
    first.process.kill('SIGKILL')
    const next = new SettleCommand(['--port', new URL(url).port, '--dir', dir])
    expect(await next.url).toBe(url)
    expect(isRunning(pid)).toBe(false)
    expect((await fetch(`${url}db`)).status).toBe(200)
  })

  it('kills a server that hangs after its own supervisor was killed', async () => {
    const dir = await temporaryFolder()
    const first = new SettleCommand(['--port', '0', '--dir', dir])
    const url = await first.url
    await fetch(`${url}db`, { method: 'PUT' })
    const pid = await first.serverPid()
    process.kill(pid, 'SIGSTOP')
    first.process.kill('SIGKILL')
    const next = new SettleCommand(['--port', new URL(url).port, '--dir', dir])
    expect(await next.url).toBe(url)
    expect(isRunning(pid)).toBe(false)
    expect(next.err).toContain('was still running without its supervisor')
    expect((await fetch(`${url}db`)).status).toBe(200)
  })

  it('goes where the settings go, and stays there when the server falls', async () => {
    const command = new SettleCommand(['--port', '0', '--dir', await temporaryFolder()])
    const before = await command.url
    const port = await freePort()
    const moved = `http://127.0.0.1:${port}/`
    const reply = await fetch(`${before}_config/httpd/port`, { method: 'PUT', body: `"${port}"` })
    expect(reply.status).toBe(200)
    expect(await statusOf(moved)).toBe(200)
    await expect(RawConnection.open(new URL(before))).rejects.toThrow('ECONNREFUSED')
    expect((await fetch(`${moved}_config/httpd/bind_address`, { method: 'PUT', body: '"0.0.0.0"' })).status).toBe(200)
    expect(await statusOf(moved)).toBe(200)
    expect((await fetch(`${moved}_config/httpd/server_options`, { method: 'PUT', body: '"[{max, 77}]"' })).status).toBe(
      200,
    )
    expect(await statusOf(moved)).toBe(200)
    expect(command.err).toBe('')
    process.kill(await command.serverPid(), 'SIGKILL')
    expect(await statusOf(moved)).toBe(200)
  })

  it('keeps the socket of a TLS listener too', async () => {
    const dir = await temporaryFolder()
    const files = Object.entries(await certificate(dir)).flatMap(([key, path]) => ['--set', `ssl/${key}=${path}`])
    const secure = ['--set', 'daemons/httpsd=on', '--set', 'ssl/port=0', ...files]
    const command = new SettleCommand(['--port', '0', '--dir', dir, ...secure])
    await command.url
    const urls = async () => (await readFile(join(dir, 'settle.uri'), 'utf8')).trim().split('\n')
    const before = await urls()
    process.kill(await command.serverPid(), 'SIGKILL')
    const { port } = new URL(before[1] ?? '')
    const socket = connectSecurely({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false })
    socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    expect(await text(socket)).toContain('200 OK')
    // Written anew once it listens.
    await expect.poll(urls).toEqual(before)
  })

  it('lets clients wait while the server restarts in its own process', async () => {
    const command = new SettleCommand(['--port', '0', '--dir', await temporaryFolder()])
    const url = await command.url
    const pid = await command.serverPid()
    for (let round = 0; round < 3; round++) {
      expect((await fetch(`${url}_restart`, { method: 'POST', headers: JSON_TYPE })).status).toBe(202)
      for (let i = 0; i < 10; i++) expect(await statusOf(url)).toBe(200)
    }
    expect(await command.serverPid()).toBe(pid)
    expect(command.err).toBe('')
  })

  it('does not wait at a second signal', async () => {
    const command = new SettleCommand(['--port', '0', '--in-memory'])
    const url = await command.url
    await fetch(`${url}db`, { method: 'PUT' })
    const slow = await RawConnection.open(new URL(url))
    slow.write(rawRequest(['PUT /db/doc HTTP/1.1', 'Host: x', 'Content-Length: 2']))
    await fetch(url)
    command.process.kill('SIGTERM')
    await expect
      .poll(() =>
        RawConnection.open(new URL(url)).then(
          () => 'open',
          () => 'refused',
        ),
      )
      .toBe('refused')
    command.process.kill('SIGTERM')
    expect((await command.ended).code).toBe(130)
  })

  it('holds a thousand connections for a server that is busy', async () => {
    const command = new SettleCommand(['--port', '0', '--in-memory'])
    const url = new URL(await command.url)
    const pid = await command.serverPid()
    process.kill(pid, 'SIGSTOP')
    const sockets = Array.from({ length: 1000 }, () => connect(Number(url.port), url.hostname))
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    // One that the system did not accept would try again after a second, and again.
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    process.kill(pid, 'SIGCONT')
    expect(await statusOf(url.href)).toBe(200)
  })
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address ? address.port : 0
}
