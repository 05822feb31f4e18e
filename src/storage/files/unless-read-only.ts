/** Clearing up after a crash is left to a later start where the file system has become read-only: that must not prevent reading. */
const READ_ONLY_CODES = new Set(['EROFS', 'EACCES', 'EPERM'])

export async function unlessReadOnly(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (!READ_ONLY_CODES.has(code)) throw error
  }
}
