/**
 * The files of the administration interface, read once and served from memory. The build puts packed forms beside the
 * files (`.br`, `.gz`); they cannot be requested by these names. A missing folder is not an error: the server says so
 * when it is asked for a file.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'

export interface InterfaceFile {
  readonly contentType: string
  readonly content: Buffer
  readonly tag: string
  /** Smaller forms of the content, the smallest first. */
  readonly packed: readonly PackedContent[]
}

export interface PackedContent {
  readonly encoding: 'br' | 'gzip'
  readonly content: Buffer
  readonly tag: string
}

/** Where the build of this release lies: beside the compiled server, and at the same place in a clone. */
const BUILT_INTERFACE = join(import.meta.dirname, '../../../dist/ui')

export class InterfaceFiles {
  readonly #folder: string
  #files: Promise<ReadonlyMap<string, InterfaceFile>> | undefined
  /** They are part of the release, so the start of this process is a valid modification time. */
  readonly lastModified = new Date().toUTCString()

  constructor(folder: string = BUILT_INTERFACE) {
    this.#folder = folder
  }

  async find(path: string): Promise<InterfaceFile | undefined> {
    return (await this.#loaded()).get(path)
  }

  /** Whether files lie below this path. */
  async isFolder(path: string): Promise<boolean> {
    return [...(await this.#loaded()).keys()].some((name) => name.startsWith(`${path}/`))
  }

  async isBuilt(): Promise<boolean> {
    return (await this.#loaded()).has('index.html')
  }

  /** A build that comes later is found at the next request. */
  async #loaded(): Promise<ReadonlyMap<string, InterfaceFile>> {
    this.#files ??= readFiles(this.#folder)
    const files = await this.#files
    if (files.size === 0) this.#files = undefined
    return files
  }
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html;charset=utf-8',
  '.js': 'text/javascript;charset=utf-8',
  '.css': 'text/css;charset=utf-8',
  '.svg': 'image/svg+xml',
  '.ico': 'image/x-icon',
  '.json': 'application/json',
  '.txt': 'text/plain;charset=utf-8',
}

const ENCODINGS = [
  ['.br', 'br'],
  ['.gz', 'gzip'],
] as const

async function readFiles(folder: string): Promise<ReadonlyMap<string, InterfaceFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const paths = entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => join(entry.parentPath, entry.name))
  const contents = new Map<string, Buffer>()
  for (const path of paths) {
    const name = path.slice(folder.length + 1).replaceAll('\\', '/')
    contents.set(name, await readFile(path))
  }
  const files = new Map<string, InterfaceFile>()
  for (const [name, content] of contents) {
    const contentType = TYPES[extname(name)]
    if (contentType === undefined) continue
    const packed = ENCODINGS.flatMap(([suffix, encoding]) => {
      const packedContent = contents.get(name + suffix)
      return packedContent ? [{ encoding, content: packedContent, tag: tagOf(packedContent) }] : []
    })
    files.set(name, { contentType, content, tag: tagOf(content), packed })
  }
  return files
}

function tagOf(content: Buffer): string {
  return `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
}
