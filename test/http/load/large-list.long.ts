import { expect, it } from 'vitest'
import { readLargeLists } from './large-list.ts'

const MEGABYTE = 1024 * 1024

it('makes a list of a million rows with less than 100 MB more memory', async () => {
  for (const [view, list] of await readLargeLists(1_000_000, 200)) {
    const { replyBytes, serverGrowthBytes, functionGrowthBytes, seconds } = list
    const megabytes = [replyBytes, serverGrowthBytes, functionGrowthBytes].map((each) => Math.round(each / MEGABYTE))
    console.log(
      `${view}: ${megabytes[0]} MB in ${seconds.toFixed(1)} s, server +${megabytes[1]} MB, function +${megabytes[2]} MB`,
    )
    expect([view, serverGrowthBytes < 100 * MEGABYTE]).toEqual([view, true])
    expect([view, functionGrowthBytes < 100 * MEGABYTE]).toEqual([view, true])
  }
})
