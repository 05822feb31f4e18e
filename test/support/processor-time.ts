/** How long something takes of a processor: unlike the clock it does not count what others do on a busy machine. */

/** Of this thread alone, in milliseconds. */
export function threadMs(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

/** Of all threads of this process, those that hash and compress too, in milliseconds. */
export async function processMs(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}
