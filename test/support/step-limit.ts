/**
 * Bounds a long test by its progress instead of its duration: each step has a limit that only a step which hangs exceeds. The
 * test itself has none (`timeout: 0`), since a loaded machine takes many times as long for all steps.
 */
const STEP_LIMIT_MS = 10 * 60_000

/** Rejects, with the name of the step, when it does not end within the limit. */
export async function withinLimit<T>(name: string, step: Promise<T>, limitMs = STEP_LIMIT_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} did not end within ${limitMs / 1000} s.`)), limitMs)
  })
  try {
    return await Promise.race([step, expired])
  } finally {
    clearTimeout(timer)
  }
}
