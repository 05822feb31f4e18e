/** `_utils/` and the icon: what a browser finds here. */

import { contentPolicy } from '../negotiation/browser-policy.ts'
import { type Answer, redirect } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

/** The page until there is an interface for people. */
export function utilities(call: Call, { version, configuration }: HttpContext): Answer {
  if (!call.path.endsWith('/') && call.segments.length === 1) return redirect(301, `${call.origin}${call.path}/`)
  const [, file = 'index.html', ...rest] = call.segments
  if (file !== 'index.html' || rest.length > 0) return fileAnswer(404, 'Not found.', { 'Content-Type': 'text/plain' })
  const headers = { 'Cache-Control': 'private, must-revalidate', 'Last-Modified': LAST_MODIFIED }
  if (call.header('if-modified-since') === LAST_MODIFIED) return fileAnswer(304, '', headers)
  const policy = contentPolicy(configuration, 'utils')
  return fileAnswer(200, page(version), { ...headers, ...policy, 'Content-Type': 'text/html;charset=utf-8' })
}

const YEAR_SECONDS = 31_536_000

export function favicon(): Answer {
  return fileAnswer(200, ICON, {
    'Content-Type': 'image/x-icon',
    'Cache-Control': `public, max-age=${YEAR_SECONDS}`,
    Expires: new Date(Date.now() + YEAR_SECONDS * 1000).toUTCString(),
  })
}

function fileAnswer(status: number, body: string | Buffer, headers: Record<string, string>): Answer {
  return { kind: 'whole', status, headers, body, isFile: true }
}

/** The files are part of the release: they are as old as this process at most. */
const LAST_MODIFIED = new Date().toUTCString()

function page(version: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Settle ${version}</title>
<h1>Settle ${version}</h1>
<p>This is a JSON document database server of the CouchDB family, and it is running. The administration interface will be here.</p>
<ul>
<li><a href="/">who answers</a></li>
<li><a href="/_all_dbs">databases</a></li>
<li><a href="/_active_tasks">active tasks</a></li>
<li><a href="/_stats">statistics</a></li>
<li><a href="/_config">configuration</a></li>
<li><a href="/_log?bytes=10000">log</a></li>
</ul>
</html>
`
}

/** Three layers, settled. */
const ICON = Buffer.from(
  'AAABAAEAEBAAAAEAIABmAAAAFgAAAIlQTkcNChoKAAAADUlIRFIAAAAQAAAAEAgGAAAAH/P/YQAAAC1JREFUeNpjYBgeQD+//z85' +
    'eBAZQBVg37/+Pyl4EBpAFZC///x/YvAgNmBAAADilQ5A6xgemgAAAABJRU5ErkJggg==',
  'base64',
)
