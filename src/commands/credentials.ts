/**
 * Which server a command talks to, and as whom. Secrets need not be on the command line, where every user of the machine can
 * read them: they come from the environment, from a file, or from the terminal.
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { CommandError, messageOf } from './command-error.ts'
import type { ServerAddress } from './server-client.ts'
import type { Terminal } from './terminal.ts'

/** The flags of all commands that talk to a server. */
export const SERVER_FLAGS = {
  url: { type: 'string' },
  user: { type: 'string' },
  'password-file': { type: 'string' },
} as const

export const SERVER_USAGE = `  --url URL            the server (SETTLE_URL, or http://127.0.0.1:5984/)
  --user NAME          a server administrator (SETTLE_USER)
  --password-file F    the file that holds the password, on its first line. Otherwise
                       the password is in SETTLE_PASSWORD, or asked for at the terminal`

export interface ServerFlags {
  readonly url?: string | undefined
  readonly user?: string | undefined
  readonly 'password-file'?: string | undefined
}

export async function serverAddress(flags: ServerFlags, terminal: Terminal): Promise<ServerAddress> {
  const url = parsed(flags.url ?? terminal.environment.SETTLE_URL ?? 'http://127.0.0.1:5984/')
  const user =
    flags.user ?? terminal.environment.SETTLE_USER ?? (url.username ? decodeURIComponent(url.username) : undefined)
  const password = await passwordFor(user, url, flags, terminal)
  url.username = ''
  url.password = ''
  if (!url.pathname.endsWith('/')) url.pathname += '/'
  return { url: url.href, user, password }
}

function parsed(text: string): URL {
  const url = URL.parse(text)
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new CommandError(`${text} is not the address of a server. It begins with http:// or https://.`)
}

async function passwordFor(
  user: string | undefined,
  url: URL,
  flags: ServerFlags,
  { stdin, stderr, environment }: Terminal,
): Promise<string | undefined> {
  if (user === undefined) return undefined
  const file = flags['password-file']
  if (file !== undefined) return firstLine(file)
  if (environment.SETTLE_PASSWORD !== undefined) return environment.SETTLE_PASSWORD
  if (url.password !== '') return decodeURIComponent(url.password)
  if (stdin.isTTY && stderr.isTTY) return asked(`Password of ${user}: `, { stdin, stderr })
  throw new CommandError(
    `There is no password for ${user}. Put it in SETTLE_PASSWORD, or in a file for --password-file.`,
  )
}

function firstLine(file: string): string {
  try {
    return readFileSync(file, 'utf8').split(/\r?\n/, 1)[0] ?? ''
  } catch (error) {
    throw new CommandError(`The password file cannot be read: ${messageOf(error)}`)
  }
}

/** Without an echo. */
function asked(question: string, { stdin, stderr }: Pick<Terminal, 'stdin' | 'stderr'>): Promise<string> {
  stderr.write(question)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const reader = createInterface({ input: stdin, output: silent, terminal: true })
  return new Promise((resolve, reject) => {
    reader.once('SIGINT', () => {
      reader.close()
      stderr.write('\n')
      reject(new CommandError('Interrupted.'))
    })
    reader.question('', (answer) => {
      reader.close()
      stderr.write('\n')
      resolve(answer)
    })
  })
}
