/** The file that contains the URLs of a running service: one line for each listener, removed with the service. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import type { Log } from './runtime/log/log.ts'

export class UriFile {
  readonly #log: Log
  #path: string | undefined

  constructor(log: Log) {
    this.#log = log
  }

  /** A file with other content is not overwritten. Without a path nothing is written. */
  async write(path: string | undefined, urls: readonly string[]): Promise<void> {
    this.#path = undefined
    if (path === undefined) return
    try {
      const known = await readFile(path, 'utf8').catch(() => '')
      if (known !== '' && !/^https?:\/\//.test(known)) throw new Error('The file is not one of this server.')
      await writeFile(path, urls.map((url) => `${url}\n`).join(''))
      this.#path = path
    } catch (error) {
      this.#log.warn('The URI file was not written.', { file: path, error: String(error) })
    }
  }

  async remove(): Promise<void> {
    if (this.#path !== undefined) await rm(this.#path, { force: true }).catch(() => {})
  }
}
