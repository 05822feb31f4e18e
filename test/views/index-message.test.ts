import { describe, expect, it } from 'vitest'
import { RequestError } from '../../src/document/request-error.ts'
import { CommitFailedError, FileDamagedError, StoreGoneError } from '../../src/storage/storage-error.ts'
import { decodeError, encodeError } from '../../src/views/processes/index-message.ts'
import { ReductionError } from '../../src/views/reductions/reduction.ts'

describe('an error that goes from process to process', () => {
  it.each([
    new RequestError('failed', 'compilation_error', 'No function.'),
    new ReductionError('failed', 'reduce_overflow_error', 'Too long.'),
    new FileDamagedError('/folder/db.1.mdb', 'It is empty.'),
    new StoreGoneError('db'),
    new CommitFailedError('The commit could not be written.'),
    new Error('Something else.'),
  ])('is the same at the other end: $name, $message', (error) => {
    // There and back: an abort is told to a process, which fails with it.
    const received = decodeError(encodeError(decodeError(encodeError(error))))
    expect(received).toBeInstanceOf(error.constructor)
    expect(received.message).toBe(error.message)
  })
})
