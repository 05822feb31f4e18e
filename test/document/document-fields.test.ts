import { describe, expect, it } from 'vitest'
import { parseDocument, readDocument, replicatedPath } from '../../src/document/document-fields.ts'
import { parseDocumentId } from '../../src/document/ids.ts'
import { JsonReader, JsonTextError } from '../../src/encoding/json/json-text.ts'

describe('the fields of a document', () => {
  it('are none in a plain one', () => {
    expect(parse('{"a":1}')).toMatchObject({ id: undefined, revision: undefined, deleted: false, attachments: [] })
  })

  it('are read beside the body', () => {
    const document = parse('{"_id":"x\\ty","_rev":"2-ABC","a":1,"_deleted":true}')
    expect(document).toMatchObject({ id: 'x\ty', revision: '2-ABC', deleted: true })
    expect(document.body.toString()).toBe('{"a":1}')
  })

  it('drop members that exist only in replies', () => {
    const text = '{"_revs_info":[],"_local_seq":1,"_conflicts":["1-a"],"_deleted_conflicts":{},"a":1}'
    expect(parse(text).body.toString()).toBe('{"a":1}')
  })

  it('take the path of _revisions, before or after _rev', () => {
    const revisions = '"_revisions":{"start":3,"ids":["c","967A00DFF5E02ADD41819138ABB3284D"]}'
    const path = { start: 3, hashes: ['c', '967a00dff5e02add41819138abb3284d'] }
    expect(parse(`{${revisions}}`)).toMatchObject({ history: path, revision: '3-c' })
    expect(parse(`{"_rev":"1-z",${revisions}}`)).toMatchObject({ history: path, revision: '3-c' })
    expect(parse(`{${revisions},"_rev":"not looked at"}`)).toMatchObject({ history: path, revision: '3-c' })
  })

  it('accept an empty _revisions', () => {
    expect(parse('{"_revisions":{"start":0,"ids":[]}}').revision).toBeUndefined()
    expect(parse('{"_rev":"1-a","_revisions":{"start":0,"ids":[]}}').revision).toBe('1-a')
  })

  it('list attachments in order, integer-like names too', () => {
    const { attachments } = parse('{"_attachments":{"b":{"stub":true},"1":{ "data" : "" }}}')
    expect(attachments.map(({ name, text }) => [name, text.toString()])).toEqual([
      ['b', '{"stub":true}'],
      ['1', '{"data":""}'],
    ])
  })
})

describe('what is refused', () => {
  it.each([
    ['{"_foo":1}', 'Bad special document member: _foo'],
    ['{"_access":[]}', 'Bad special document member: _access'],
    ['{"_deleted":"x"}', 'Bad special document member: _deleted'],
    ['{"_deleted":null}', 'Bad special document member: _deleted'],
    ['{"_attachments":[]}', 'Bad special document member: _attachments'],
    ['{"_attachments":{"a":1}}', 'Bad special document member: _attachments'],
    ['{"_revisions":1}', 'Bad special document member: _revisions'],
    ['{"_revisions":{"start":"1","ids":["a"]}}', "_revisions.start isn't an integer."],
    ['{"_revisions":{"start":1.5,"ids":["a"]}}', "_revisions.start isn't an integer."],
    ['{"_revisions":{"start":1e15,"ids":["a"]}}', "_revisions.start isn't an integer."],
    ['{"_revisions":{"start":1,"ids":"a"}}', "_revisions.ids isn't a array."],
    ['{"_revisions":{"start":1,"ids":[1]}}', "RevId isn't a string"],
    [`{"_revisions":{"start":1,"ids":["${'g'.repeat(32)}"]}}`, "RevId isn't a valid hexadecimal"],
    ['{"_revisions":{"start":1,"ids":["b","a"]}}', '_revisions.start is less than the number of _revisions.ids.'],
  ])('%s: 500 %s', (text, reason) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ kind: 'failed', error: 'doc_validation', reason }))
  })

  it.each([
    ['{"_id":""}', 'Document id must not be empty'],
    ['{"_id":1}', 'Document id must be a string'],
    ['{"_id":null}', 'Document id must be a string'],
    ['{"_id":"_x"}', 'Only reserved document ids may start with underscore.'],
    ['{"_id":"_design/"}', 'Illegal document id `_design/`'],
  ])('%s: 400 illegal_docid %s', (text, reason) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ kind: 'invalid', error: 'illegal_docid', reason }))
  })

  it.each([
    ['{"_rev":"1"}', 'Invalid rev format'],
    ['{"_rev":null}', 'Invalid rev format'],
    ['{"_attachments":{"_a":{}}}', "Attachment name can't start with '_'"],
    ['{"_attachments":{"":{}}}', 'Attachment name must not be empty'],
    ['{"_attachments":{"a":{},"\\u0061":{}}}', 'Duplicate attachments'],
    ['[{}]', 'Document must be a JSON object'],
    ['1', 'Document must be a JSON object'],
  ])('%s: 400 %s', (text, reason) => {
    expect(() => parse(text)).toThrow(expect.objectContaining({ kind: 'invalid', error: 'bad_request', reason }))
  })

  it('is invalid JSON before anything else', () => {
    expect(() => parse('[1,')).toThrow(JsonTextError)
    expect(() => parse('[]x')).toThrow(JsonTextError)
    expect(() => parse('{"_foo":1}x')).toThrow(JsonTextError)
  })
})

describe('a document id', () => {
  it('may be reserved', () => {
    expect(parseDocumentId('_design/x')).toBe('_design/x')
    expect(parseDocumentId('_local/x')).toBe('_local/x')
  })

  it('must be UTF-8', () => {
    expect(() => parseDocumentId('\ud800')).toThrow('Document id must be valid UTF-8')
  })
})

describe('documents of a bulk request', () => {
  it('are read one by one', () => {
    const reader = new JsonReader(Buffer.from('[{"_id":"a"},{"_id":"b","x":1},2]'))
    const ids: unknown[] = []
    const read = () => {
      for (const _ of reader.elements()) ids.push(readDocument(reader).id)
    }
    expect(read).toThrow('Document must be a JSON object')
    expect(ids).toEqual(['a', 'b'])
  })

  it('have their revision when they are replicated', () => {
    expect(replicatedPath(parse('{"_rev":"1-a"}'))).toEqual({ start: 1, hashes: ['a'] })
    expect(() => replicatedPath(parse('{}'))).toThrow('the document needs `_rev` or `_revisions` specified')
    expect(() => replicatedPath(parse('{"_rev":"0-1"}'))).toThrow('Invalid rev format')
  })
})

function parse(text: string) {
  return parseDocument(Buffer.from(text))
}
