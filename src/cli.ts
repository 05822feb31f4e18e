#!/usr/bin/env node
/**
 * The `settle` command: runs the server under a supervisor, or one of the commands beside it. It loads little, so that
 * the server starts fast.
 */
import { enableCompileCache } from 'node:module'

// Later starts use compiled code from the cache.
enableCompileCache()
const { commandFlags, fail, USAGE } = await import('./command-flags.ts')

async function main(): Promise<void> {
  const [name, ...args] = process.argv.slice(2)
  if (name !== undefined && !name.startsWith('-')) return runCommand(name, args)
  const flags = commandFlags()
  if (flags.help) {
    process.stdout.write(USAGE)
    return
  }
  if (flags.version) {
    const { version } = await import('./runtime/version.ts')
    process.stdout.write(`${version}\n`)
    return
  }
  const { Supervisor } = await import('./supervisor/supervisor.ts')
  const { serverCommand } = await import('./supervisor/server-command.ts')
  const { KeptResources } = await import('./supervisor/kept-resources.ts')
  const resources = new KeptResources(async (folder) => {
    const { takeLease } = await import('./storage/files/folder-lock.ts')
    return takeLease(folder)
  })
  const supervised = {
    command: serverCommand(process.argv.slice(2), process.execArgv),
    isInMemory: flags.service.inMemory ?? false,
  }
  const supervisor = new Supervisor(supervised, resources, (line) => process.stderr.write(`settle: ${line}\n`))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => supervisor.stop())
  process.exit(await supervisor.run())
}

async function runCommand(name: string, args: readonly string[]): Promise<void> {
  const { commandNamed } = await import('./commands/command-table.ts')
  const command = commandNamed(name)
  if (!command) throw new Error(`There is no command ${name}. Try --help.`)
  process.exitCode = await command(args)
}

main().catch(fail)
