/** The priority of processes that the server starts: requests come first on a busy machine. */
import { getPriority, setPriority } from 'node:os'

/** Gives a process this niceness, or that of this process where it is nicer already. */
export function lowerPriority(pid: number, niceness: number): void {
  try {
    // To take niceness away would need a right that a server should not have.
    setPriority(pid, Math.max(niceness, getPriority()))
  } catch {
    // It has ended, or the system does not allow it.
  }
}
