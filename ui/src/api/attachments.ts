/** Attachments: uploads with progress, and previews that are never run as pages. */
import { ApiError, documentPath, path, requestJson, send, serverRoot, UnreachableError } from './client.ts'
import type { Written } from './documents.ts'

export function attachmentPath(database: string, id: string, name: string): string {
  return `${documentPath(database, id)}/${name
    .split('/')
    .map((part) => path(part))
    .join('/')}`
}

export function attachmentUrl(database: string, id: string, name: string, rev: string): string {
  return `${serverRoot}${attachmentPath(database, id, name)}?rev=${encodeURIComponent(rev)}`
}

interface Upload {
  readonly database: string
  readonly id: string
  readonly rev: string
  readonly file: File
  onProgress(share: number): void
}

/** By XMLHttpRequest: fetch does not report upload progress. */
export function uploadAttachment({ database, id, rev, file, onProgress }: Upload): Promise<Written> {
  const resource = attachmentPath(database, id, file.name)
  const request = `PUT /${resource}`
  return new Promise((resolve, reject) => {
    const exchange = new XMLHttpRequest()
    exchange.open('PUT', `${serverRoot}${resource}?rev=${encodeURIComponent(rev)}`)
    exchange.setRequestHeader('Accept', 'application/json')
    exchange.setRequestHeader('Content-Type', file.type || 'application/octet-stream')
    exchange.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total)
    exchange.onerror = () => reject(new UnreachableError(request))
    exchange.onload = () => {
      const body: { error?: string; reason?: string; id: string; rev: string } = JSON.parse(exchange.responseText)
      if (exchange.status < 300) resolve(body)
      else reject(new ApiError(exchange.status, body.error ?? '', body.reason ?? '', request))
    }
    exchange.send(file)
  })
}

export function deleteAttachment(database: string, id: string, name: string, rev: string): Promise<Written> {
  return requestJson(attachmentPath(database, id, name), { method: 'DELETE', query: { rev } })
}

/** The first bytes, as text. */
export async function attachmentText(database: string, id: string, name: string, limitBytes: number): Promise<string> {
  const reply = await send(attachmentPath(database, id, name), { headers: { Accept: '*/*' } })
  const reader = reply.body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let sizeBytes = 0
  while (reader && sizeBytes < limitBytes) {
    const { done, value } = await reader.read()
    if (done) return text
    sizeBytes += value.length
    text += decoder.decode(value, { stream: true })
  }
  await reader?.cancel()
  return text.slice(0, limitBytes)
}

/** Under a type of our choice: whatever the bytes are, they cannot become a page of this origin. */
export async function attachmentBlob(database: string, id: string, name: string, type: string): Promise<Blob> {
  const reply = await send(attachmentPath(database, id, name), { headers: { Accept: '*/*' } })
  return new Blob([await reply.arrayBuffer()], { type })
}
