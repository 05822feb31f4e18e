/**
 * What must survive a crash of the server: the leases of its folders and its listening sockets. The next server gets
 * them here; what it does not request is released once it is ready.
 */
import type { SendHandle } from 'node:child_process'
import type { ListeningAddress } from '../http/listeners/listener.ts'
import type { FolderLock, TakeLease } from '../storage/files/folder-lock.ts'
import { closeHandle } from '../wire/socket-handle.ts'

interface KeptSocket {
  readonly address: ListeningAddress
  readonly handle: SendHandle
}

export class KeptResources {
  readonly #takeLease: TakeLease
  readonly #leases = new Map<string, FolderLock>()
  readonly #sockets = new Map<string, KeptSocket>()
  /** The folders that the current server has requested. */
  #folders = new Set<string>()

  constructor(takeLease: TakeLease) {
    this.#takeLease = takeLease
  }

  /** Throws when the folder belongs to another process. */
  async lease(folder: string): Promise<void> {
    this.#folders.add(folder)
    if (!this.#leases.has(folder)) this.#leases.set(folder, await this.#takeLease(folder))
  }

  release(folder: string): void {
    this.#folders.delete(folder)
    this.#leases.get(folder)?.release()
    this.#leases.delete(folder)
  }

  socket(wanted: ListeningAddress): SendHandle | undefined {
    for (const { address, handle } of this.#sockets.values()) if (fits(address, wanted)) return handle
    return undefined
  }

  keep(address: ListeningAddress, handle: SendHandle): void {
    const key = keyOf(address)
    const before = this.#sockets.get(key)
    if (before) closeHandle(before.handle)
    this.#sockets.set(key, { address, handle })
  }

  keepOnly(addresses: readonly ListeningAddress[]): void {
    const wanted = new Set(addresses.map(keyOf))
    for (const [key, { handle }] of this.#sockets) {
      if (wanted.has(key)) continue
      closeHandle(handle)
      this.#sockets.delete(key)
    }
  }

  /** A new server is starting, and will request what it needs. */
  serverStarts(): void {
    this.#folders = new Set()
  }

  /** It has requested everything. Unused sockets were closed when it began to listen. */
  serverIsReady(): void {
    for (const folder of [...this.#leases.keys()]) if (!this.#folders.has(folder)) this.release(folder)
  }
}

function fits(kept: ListeningAddress, wanted: ListeningAddress): boolean {
  const isPort = wanted.port === 0 || wanted.port === kept.port
  return isPort && wanted.host === kept.host && wanted.isSecure === kept.isSecure
}

function keyOf({ host, port, isSecure }: ListeningAddress): string {
  return JSON.stringify([host, port, isSecure])
}
