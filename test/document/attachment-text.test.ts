import { describe, expect, it } from 'vitest'
import { attachmentMembers } from '../../src/document/attachment-text.ts'

const content = Buffer.alloc(3000, 'some content')
const data = content.toString('base64')
const others = { content_type: 'text/plain; name="ü"', revpos: 2, nested: { data: ['"', '\\'] } }

describe('the text of an attachment', () => {
  it.each([
    { data, ...others },
    { ...others, data },
    { content_type: 'x/y', data, stub: false },
  ])('has its content taken out', (members) => {
    const read = attachmentMembers(Buffer.from(JSON.stringify(members)))
    expect(read).toEqual({ members: { ...members, data: '' }, data: content })
  })

  it('is parsed as it is where there is no content to decode', () => {
    const long = 'x'.repeat(2000)
    for (const members of [
      { ...others, stub: true, long },
      { data: 5, long },
      { data: `${long}.`, ...others },
      { data: 'QUFB' },
    ]) {
      const read = attachmentMembers(Buffer.from(JSON.stringify(members)))
      expect(read).toEqual({ members, data: undefined })
    }
  })

  it('uses the last of duplicate members', () => {
    const twice = (first: string, last: string) => Buffer.from(`{"data":${first},"a":1,"data":${last}}`)
    expect(attachmentMembers(twice('"QUJD"', `"${data}"`)).data).toEqual(content)
    expect(attachmentMembers(twice(`"${data}"`, '1'))).toEqual({ members: { data: 1, a: 1 }, data: undefined })
  })
})
