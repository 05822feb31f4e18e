import { expect, it } from 'vitest'
import { type ScannedText, ScanSlots } from '../../src/scan/scan-slots.ts'

const LARGE = 64 * 1024 * 1024

it('leaves a slot to small bodies, however many large ones wait', async () => {
  const slots = new ScanSlots(2)
  const served: string[] = []
  const first = await slots.take({ bytes: LARGE })
  const second = slots.take({ bytes: LARGE }).then((slot) => {
    served.push('large')
    return slot
  })
  const small = await slots.take({ bytes: 1000 })
  served.push('small')
  const next = slots.take({ bytes: 1000 }).then((slot) => {
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

it('has documents of queries and bodies take turns, and leaves a slot to small bodies', async () => {
  const slots = new ScanSlots(2)
  const served: string[] = []
  const wait = (name: string, text: ScannedText) =>
    slots.take(text).then((slot) => {
      served.push(name)
      return slot
    })
  const first = await slots.take({ bytes: 1000, isMatched: true })
  const matches = [1, 2, 3].map((n) => wait(`match ${n}`, { bytes: 1000, isMatched: true }))
  const large = wait('large', { bytes: LARGE })
  const small = await slots.take({ bytes: 1000 })
  expect(served).toEqual([])
  small.release()
  first.release()
  for (const waiting of [large, ...matches]) void waiting.then((slot) => slot.release())
  await Promise.all(matches)
  expect(served.indexOf('large')).toBeLessThan(2)
})

it('is not acquired for a query whose client disconnected', async () => {
  const slots = new ScanSlots(2)
  const aborting = new AbortController()
  const slot = await slots.take({ bytes: 1000, isMatched: true, signal: aborting.signal })
  const gone = slots.take({ bytes: 1000, isMatched: true, signal: aborting.signal })
  const next = slots.take({ bytes: 1000, isMatched: true })
  aborting.abort(new Error('gone'))
  await expect(gone).rejects.toThrow('gone')
  await expect(slots.take({ bytes: 1000, isMatched: true, signal: aborting.signal })).rejects.toThrow('gone')
  slot.release()
  ;(await next).release()
  ;(await slots.take({ bytes: 1000, isMatched: true })).release()
})
