/** The commands of `settle` beside the server itself. Each is loaded when it is called. */
import { exitCodeOf } from './command-error.ts'
import { processTerminal, type Terminal } from './terminal.ts'

/** Resolves to the exit code. */
export type Command = (args: readonly string[], terminal?: Terminal) => Promise<number>

const COMMANDS: ReadonlyMap<string, () => Promise<(args: readonly string[], terminal: Terminal) => Promise<number>>> =
  new Map([
    ['backup', async () => (await import('./backup/backup-command.ts')).backupCommand],
    ['import', async () => (await import('./import/import-command.ts')).importCommand],
    ['check', async () => (await import('./check/check-command.ts')).checkCommand],
    ['restore', async () => (await import('./restore/restore-command.ts')).restoreCommand],
  ])

/** Undefined where there is no such command. */
export function commandNamed(name: string): Command | undefined {
  const load = COMMANDS.get(name)
  if (!load) return undefined
  return async (args, terminal = processTerminal) => {
    try {
      return await (await load())(args, terminal)
    } catch (error) {
      if (!(error instanceof Error)) throw error
      terminal.stderr.write(`settle ${name}: ${error.message}\n`)
      return exitCodeOf(error, 'failed')
    }
  }
}
