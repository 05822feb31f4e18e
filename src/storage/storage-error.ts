/** The errors of stores, by class: callers map them to replies. */
import { basename } from 'node:path'

export class StorageError extends Error {
  override readonly name: string = 'StorageError'
}

export class StoreExistsError extends StorageError {
  override readonly name = 'StoreExistsError'
  constructor(store: string) {
    super(`The store '${store}' exists already.`)
  }
}

export class StoreMissingError extends StorageError {
  override readonly name = 'StoreMissingError'
  constructor(store: string) {
    super(`There is no store '${store}'.`)
  }
}

/** The store was dropped, or the engine closed, while somebody still wanted something of it. */
export class StoreGoneError extends StorageError {
  override readonly name = 'StoreGoneError'
  readonly store: string

  constructor(store: string) {
    super(`The store '${store}' is gone.`)
    this.store = store
  }
}

export class StoreNameError extends StorageError {
  override readonly name = 'StoreNameError'
}

/** The commit changed nothing, because the disk would not take it: full, over a quota, or failing. */
export class CommitFailedError extends StorageError {
  override readonly name = 'CommitFailedError'
}

/** Too many snapshots are open for another one; there is room when some are released. */
export class TooManyReadersError extends StorageError {
  override readonly name = 'TooManyReadersError'
}

/** The server that keeps the stores cannot be reached, or does not answer; it may be back in some seconds. */
export class EngineUnavailableError extends StorageError {
  override readonly name: string = 'EngineUnavailableError'
}

/** The server that keeps the stores answers, and refuses the user, the password or the database. */
export class EngineRefusalError extends EngineUnavailableError {
  override readonly name = 'EngineRefusalError'
}

/** A value has more bytes than the engine takes in one piece. */
export class ValueTooLargeError extends StorageError {
  override readonly name = 'ValueTooLargeError'
  constructor(limitBytes: number) {
    super(`The storage engine takes values of up to ${limitBytes} bytes.`)
  }
}

/** Another server has the lease that a commit was made under: nothing was written. */
export class LeaseLostError extends StorageError {
  override readonly name = 'LeaseLostError'
  constructor(lease: string) {
    super(`The lease '${lease}' belongs to another server now.`)
  }
}

/** No file can be opened, since the process has too many open; there is room when some are closed. */
export class NoDescriptorsError extends StorageError {
  override readonly name = 'NoDescriptorsError'
}

/** Another process rewrote a store, and its new file cannot be opened here: the store stays in the file that it had. */
export class MoveFailedError extends StorageError {
  override readonly name = 'MoveFailedError'
}

/** The folder cannot be used: not writable, in use by another process, or of another format. */
export class DataFolderError extends StorageError {
  override readonly name = 'DataFolderError'
}

/** The file of a store is not one that the engine can use. Nothing of it was read, or what was read led nowhere. */
export class FileDamagedError extends StorageError {
  override readonly name = 'FileDamagedError'
  readonly path: string
  readonly problem: string

  /** The problem is a sentence. */
  constructor(path: string, problem: string, options?: ErrorOptions) {
    super(`The file ${basename(path)} is damaged. ${problem}`, options)
    this.path = path
    this.problem = problem
  }
}
