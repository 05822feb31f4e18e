/** Bugs of a kind are planted in a server, and the fuzzer has to find them. */
import { expect, it } from 'vitest'
import { fuzz } from './fuzzer.ts'

export const SEED = 20_261_116

/** Only what hangs takes so long. */
export const HANG_MS = 300_000

/** How long a reply is waited for where a bug keeps it from coming. */
const NO_REPLY_MS = 3_000

/** Each bug by its name, with what is reported of it. */
export function findsPlanted(bugs: readonly (readonly [plant: string, reported: RegExp])[]): void {
  it.each(bugs)('finds a planted bug: %s', { timeout: HANG_MS }, async (plant, reported) => {
    const hangs = plant === 'hang' ? { hangMs: NO_REPLY_MS } : {}
    const { findings } = await fuzz({ requests: 500, plant, seed: SEED, findingsLimit: 1, ...hangs })
    expect(findings.map(({ what }) => what).join('\n')).toMatch(reported)
  })
}
