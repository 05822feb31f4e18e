import { expect, it } from 'vitest'
import { Client, RawConnection } from '../support/client.ts'
import { SettleCommand } from '../support/settle-command.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Of them half are for connections. */
const DESCRIPTORS = 256

it.runIf(process.platform === 'linux')(
  'a server with few descriptors refuses connections, and opens databases all the same',
  async () => {
    const args = ['--port', '0', '--dir', await temporaryFolder()]
    const command = new SettleCommand(args, { prelude: `ulimit -n ${DESCRIPTORS}` })
    const url = await command.url
    const client = new Client(url)
    const names = Array.from({ length: 40 }, (_, i) => `db${i}`)
    for (const name of names) expect((await client.request('PUT', `/${name}`)).status).toBe(201)
    const connections: RawConnection[] = []
    for (let i = 0; i < DESCRIPTORS * 1.5; i++) connections.push(await RawConnection.open(new URL(url)))
    // Those beyond the limit are told or cut off.
    const last = connections.at(-1)
    await last?.closed()
    expect(connections.filter(({ received }) => received.startsWith('HTTP/1.1 503')).length).toBeGreaterThan(0)
    // More databases than files may stay open: each has to be opened again.
    for (const name of names) expect((await client.request('GET', `/${name}`)).status).toBe(200)
    for (const connection of connections) connection.end()
    await expect
      .poll(() =>
        fetch(url).then(
          ({ status }) => status,
          () => undefined,
        ),
      )
      .toBe(200)
    expect(await (await fetch(`${url}_log?bytes=100000`)).text()).toContain('allows fewer connections')
    expect(command.err).toBe('')
    client.close()
  },
)
