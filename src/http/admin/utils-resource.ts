/** `_utils/` and the icon: the files of the administration interface. */
import { RequestError } from '../../document/request-error.ts'
import { type ByteRange, byteRangesBody, newBoundary } from '../../multipart/multipart-writer.ts'
import { parseRanges } from '../attachments/attachment-resource.ts'
import { contentPolicy, NO_SNIFFING } from '../negotiation/browser-policy.ts'
import { type Answer, type Headers, redirect, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import type { InterfaceFile, PackedContent } from './interface-files.ts'

export async function utilities(call: Call, context: HttpContext): Promise<Answer> {
  const { interfaceFiles } = context
  const segments = call.segments.slice(1)
  const path = segments.join('/')
  // An escaped slash within a segment is an attempt to leave the folder.
  if (segments.some((segment) => segment.includes('/'))) return notThere()
  const isFolder = call.path.endsWith('/')
  const file = isFolder ? undefined : await interfaceFiles.find(path)
  if (file && path !== '') return fileAnswer(call, context, file)
  if (!isFolder && (path === '' || (await interfaceFiles.isFolder(path)))) {
    return asFile(redirect(301, `${call.origin}${call.path}/`))
  }
  const index = await interfaceFiles.find(isFolder && path !== '' ? `${path}/index.html` : 'index.html')
  if (index && isFolder) return fileAnswer(call, context, index)
  if (path === '' && !(await interfaceFiles.isBuilt())) return notBuilt(context)
  return notThere()
}

const YEAR_SECONDS = 31_536_000

export function favicon(): Answer {
  return {
    kind: 'whole',
    status: 200,
    body: ICON,
    isFile: true,
    headers: {
      'Content-Type': 'image/x-icon',
      'Cache-Control': `public, max-age=${YEAR_SECONDS}`,
      Expires: new Date(Date.now() + YEAR_SECONDS * 1000).toUTCString(),
    },
  }
}

/**
 * Nothing from elsewhere and nothing inline. Blobs are previews of attachments, whose type the page sets itself.
 * An operator who switches `csp/utils_enable` on decides instead.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "font-src 'self'",
  'frame-src blob:',
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

function fileAnswer(call: Call, { interfaceFiles, settings }: HttpContext, file: InterfaceFile): Answer {
  const ranges = askedRanges(call, file.content.length)
  const packed = ranges ? undefined : packedFor(call, file)
  const { content, tag } = packed ?? file
  const headers: Headers = {
    'Cache-Control': 'private, must-revalidate',
    'Last-Modified': interfaceFiles.lastModified,
    ETag: tag,
    Vary: 'Accept-Encoding',
  }
  if (isKnown(call, tag, interfaceFiles.lastModified)) return whole(304, '', headers)
  const described: Headers = {
    ...headers,
    ...NO_SNIFFING,
    'Accept-Ranges': 'bytes',
    'Content-Security-Policy': POLICY,
    'Referrer-Policy': 'no-referrer',
    ...contentPolicy(settings.current, 'utils'),
    'Content-Type': file.contentType,
  }
  if (ranges) return rangesAnswer(file, ranges, described)
  return whole(200, content, packed ? { ...described, 'Content-Encoding': packed.encoding } : described)
}

/** The `If-None-Match` of the client decides; without one, its date does. */
function isKnown(call: Call, tag: string, lastModified: string): boolean {
  if (call.header('if-none-match') !== undefined) return call.hasTag(tag)
  return call.header('if-modified-since') === lastModified
}

/** The whole is sent where a range cannot be: unlike attachments, these files have no 416. */
function askedRanges(call: Call, length: number): ByteRange[] | undefined {
  try {
    return parseRanges(call.header('range'), length)
  } catch (error) {
    if (error instanceof RequestError) return undefined
    throw error
  }
}

function packedFor(call: Call, { packed }: InterfaceFile): PackedContent | undefined {
  const accepted = (call.header('accept-encoding') ?? '').split(',').map((part) => part.trim().toLowerCase())
  const takes = (name: string) =>
    accepted.some((part) => part === name || /^;\s*q=(1|0?\.\d*[1-9])/.test(rest(part, name)))
  return packed.find(({ encoding }) => takes(encoding))
}

/** What follows a name in a list of preferences; nothing when it is another name. */
function rest(part: string, name: string): string {
  return part.startsWith(name) ? part.slice(name.length).trim() : ''
}

function rangesAnswer(file: InterfaceFile, ranges: readonly ByteRange[], headers: Headers): Answer {
  const { content, contentType } = file
  const [first, ...more] = ranges
  if (first && more.length === 0) {
    const part = content.subarray(first.first, first.last + 1)
    return whole(206, part, { ...headers, 'Content-Range': `bytes ${first.first}-${first.last}/${content.length}` })
  }
  const boundary = newBoundary()
  const parts = {
    contentType,
    length: content.length,
    async *content(range: ByteRange) {
      yield content.subarray(range.first, range.last + 1)
    },
  }
  const type = `multipart/byteranges; boundary="${boundary}"`
  return asFile(
    streamed(byteRangesBody(parts, ranges, boundary), { status: 206, headers: { ...headers, 'Content-Type': type } }),
  )
}

function notThere(): Answer {
  return whole(404, 'Not found.', { 'Content-Type': 'text/plain' })
}

function notBuilt({ version, settings }: HttpContext): Answer {
  const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Settle ${version}</title>
<h1>Settle ${version}</h1>
<p>The server is running, but its administration interface has not been built.</p>
<p>Run <code>npm run build:ui</code> in the project's folder and load this page again. <code>npm start</code> does this by itself.</p>
</html>
`
  const policy = { 'Content-Security-Policy': POLICY, ...contentPolicy(settings.current, 'utils') }
  return whole(503, page, { ...policy, 'Content-Type': 'text/html;charset=utf-8', 'Cache-Control': 'no-store' })
}

function whole(status: number, body: string | Buffer, headers: Headers): Answer {
  return { kind: 'whole', status, headers, body, isFile: true }
}

function asFile(answer: Answer): Answer {
  return { ...answer, isFile: true }
}

/** Three layers, settled. */
const ICON = Buffer.from(
  'AAABAAEAEBAAAAEAIABmAAAAFgAAAIlQTkcNChoKAAAADUlIRFIAAAAQAAAAEAgGAAAAH/P/YQAAAC1JREFUeNpjYBgeQD+//z85' +
    'eBAZQBVg37/+Pyl4EBpAFZC///x/YvAgNmBAAADilQ5A6xgemgAAAABJRU5ErkJggg==',
  'base64',
)
