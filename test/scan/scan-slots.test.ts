import { expect, it } from 'vitest'
import { ScanSlots } from '../../src/scan/scan-slots.ts'

const LARGE = 64 * 1024 * 1024

it('leaves a slot to small bodies, however many large ones wait', async () => {
  const slots = new ScanSlots(2)
  const served: string[] = []
  const first = await slots.take(LARGE)
  const second = slots.take(LARGE).then((slot) => {
    served.push('large')
    return slot
  })
  const small = await slots.take(1000)
  served.push('small')
  const next = slots.take(1000).then((slot) => {
    served.push('next small')
    return slot
  })
  small.release()
  ;(await next).release()
  expect(served).toEqual(['small', 'next small'])
  first.release()
  first.release()
  ;(await second).release()
  expect(served).toEqual(['small', 'next small', 'large'])
})
