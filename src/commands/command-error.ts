/** The error of a command: a message for people, and an exit code for scripts. */
import { BackupDamagedError } from '../backup/frame.ts'

/**
 * 0 is success. `failed`: nothing was done, or it cannot be done. `incomplete`: a part is done, and running the command again
 * continues. `damaged`: a checksum or a rule of the format is violated.
 */
export const EXIT_CODES = { failed: 1, incomplete: 2, damaged: 3 } as const

export class CommandError extends Error {
  readonly exitCode: number

  constructor(message: string, outcome: keyof typeof EXIT_CODES = 'failed') {
    super(message)
    this.name = 'CommandError'
    this.exitCode = EXIT_CODES[outcome]
  }
}

/** `outcome` is for errors without an exit code of their own. */
export function exitCodeOf(error: unknown, outcome: keyof typeof EXIT_CODES): number {
  if (error instanceof BackupDamagedError) return EXIT_CODES.damaged
  return error instanceof CommandError ? error.exitCode : EXIT_CODES[outcome]
}

/** An error of the system while something is written below the path, such as a full disk. Errors of commands stay as they are. */
export function writeError(path: string, error: unknown): unknown {
  if (!(error instanceof Error) || !('syscall' in error)) return error
  return new CommandError(`${path} cannot be written: ${error.message}`, 'incomplete')
}

/** The most serious of several outcomes. */
export function worst(codes: readonly number[]): number {
  return Math.max(0, ...codes)
}

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // Node's client says what went wrong in the cause.
  const { cause } = error
  return error.message === '' && cause instanceof Error ? cause.message : error.message || error.name
}
