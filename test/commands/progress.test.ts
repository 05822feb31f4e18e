import { describe, expect, it } from 'vitest'
import { countText, Progress, sizeText } from '../../src/commands/progress.ts'

function shown(isTTY: boolean, quiet = false) {
  let time = 0
  let text = ''
  const write = (piece: string) => {
    text += piece
  }
  const wait = (ms: number) => {
    time += ms
  }
  const progress = new Progress({ isTTY, columns: 60, write }, { quiet, now: () => time })
  return { progress, wait, text: () => text }
}

describe('the progress of a command', () => {
  it('is a bar that is drawn in place on a terminal', () => {
    const { progress, wait, text } = shown(true)
    progress.begin('sample')
    progress.update(0.1, 'too soon')
    expect(text()).toBe('')
    wait(5000)
    progress.update(0.5, '1.0 MB')
    expect(text()).toBe('\r\x1b[K[████████████░░░░░░░░░░░░]  50% sample: 1.0 MB, 5 s left')
    progress.line('sample: done')
    expect(text().endsWith('\r\x1b[Ksample: done\n')).toBe(true)
  })

  it('does not wrap', () => {
    const { progress, wait, text } = shown(true)
    progress.begin('sample')
    wait(200)
    progress.update(1, 'x'.repeat(100))
    expect(text().replace('\r\x1b[K', '')).toHaveLength(59)
  })

  it('is a plain line from time to time elsewhere', () => {
    const { progress, wait, text } = shown(false)
    progress.begin('sample')
    wait(9000)
    progress.update(0.4, 'nothing yet')
    wait(2000)
    progress.update(0.5, '1.0 MB')
    progress.line('sample: done')
    expect(text()).toBe('sample: 50%, 1.0 MB\nsample: done\n')
  })

  it('shows only errors with --quiet', () => {
    const { progress, wait, text } = shown(true, true)
    progress.begin('sample')
    wait(5000)
    progress.update(0.5, '1.0 MB')
    progress.line('done')
    progress.warn('wrong')
    expect(text()).toBe('wrong\n')
  })

  it('formats counts and sizes for people', () => {
    expect([sizeText(999), sizeText(1500), sizeText(2_500_000)]).toEqual(['999 bytes', '1.5 kB', '2.5 MB'])
    expect([countText(1, 'document'), countText(12_345, 'document')]).toEqual(['1 document', '12,345 documents'])
  })
})
