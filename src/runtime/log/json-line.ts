/**
 * One message of the log as one line of JSON, for programs that collect logs. `time`, `level`, `process` and `message`
 * are in every line; details follow as members of their own.
 */

const OWN_NAMES: ReadonlySet<string> = new Set(['time', 'level', 'process', 'message'])

export function jsonLine(level: string, message: string, details: object | undefined): string {
  const line: Record<string, unknown> = { time: new Date().toISOString(), level, process: process.pid, message }
  if (details) {
    for (const [name, value] of Object.entries(details)) line[OWN_NAMES.has(name) ? `detail_${name}` : name] = value
  }
  // JSON escapes line feeds, so a message cannot forge a line. These two end a line for some readers too.
  return `${JSON.stringify(line).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`
}
