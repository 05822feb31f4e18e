/**
 * A full backup as one stream: the settings, then each database from its frame `database` to its frame `end`. For pipes that
 * compress, encrypt or send it.
 */
import type { Writable } from 'node:stream'
import { jsonFrame, MAGIC } from '../../backup/frame.ts'
import { CommandError } from '../command-error.ts'
import { countText, type Progress, sizeText } from '../progress.ts'
import type { ServerClient } from '../server-client.ts'
import { type BackupOptions, databasesOf, openBackup } from './backup-plan.ts'
import { followSection } from './chain.ts'

export async function backupToStream(
  client: ServerClient,
  options: BackupOptions,
  output: Writable & { readonly isTTY?: boolean },
  progress: Progress,
): Promise<number> {
  if (output.isTTY) throw new CommandError('A backup is not for a terminal. Redirect standard output.')
  const names = await databasesOf(client, options)
  // The reader may close the pipe at any time; the write then fails.
  output.on('error', () => {})
  const write = (piece: Buffer) =>
    new Promise<void>((resolve, reject) => {
      output.write(piece, (error) => (error ? reject(closedOutput(error)) : resolve()))
    })
  const saved: string[] = []
  await write(MAGIC)
  if (options.withSettings) await write(jsonFrame('settings', await client.json('GET', '_config')))
  let bytes = 0
  for (const name of names) {
    progress.begin(name)
    const pieces = await openBackup(client, name, '')
    if (!pieces) continue
    const written = async function* () {
      for await (const piece of pieces) {
        await write(piece)
        bytes += piece.length
        yield piece
      }
    }
    const check = await followSection(written(), ({ head, position }) => {
      progress.update(head.until === 0 ? 1 : position / head.until, sizeText(bytes))
    })
    if (!check.end)
      throw new CommandError(`The server stopped while ${name} was sent. The backup cannot be used.`, 'incomplete')
    saved.push(name)
  }
  await write(jsonFrame('complete', { databases: saved }))
  progress.line(`${countText(saved.length, 'database')}, ${sizeText(bytes)}.`)
  return 0
}

function closedOutput(error: Error): CommandError {
  return new CommandError(
    `Standard output cannot be written: ${error.message}. The backup cannot be used.`,
    'incomplete',
  )
}
