/** What every request asks of the configuration, read once for each state of it. */
import type { Configuration } from '../config/configuration.ts'
import type { ForwardedNames } from './call.ts'

export interface RequestSettings {
  readonly forwarded: ForwardedNames
  readonly longestUrl: number
  readonly allowsJsonp: boolean
  /** Resources that virtual hosts leave alone. */
  readonly globalHandlers: string
}

/** Sections are new objects after each change, so what was made of one stays right. */
const KNOWN = new WeakMap<ReadonlyMap<string, string>, RequestSettings>()

export function requestSettings(configuration: Configuration): RequestSettings {
  const section = configuration.section('httpd')
  let settings = KNOWN.get(section)
  if (!settings) {
    settings = readSettings(section)
    KNOWN.set(section, settings)
  }
  return settings
}

function readSettings(section: ReadonlyMap<string, string>): RequestSettings {
  const name = (key: string, usual: string) => section.get(key)?.toLowerCase() ?? usual
  return {
    forwarded: {
      host: name('x_forwarded_host', 'x-forwarded-host'),
      ssl: name('x_forwarded_ssl', 'x-forwarded-ssl'),
      proto: name('x_forwarded_proto', 'x-forwarded-proto'),
    },
    longestUrl: Number(section.get('max_uri_length') ?? Number.POSITIVE_INFINITY),
    allowsJsonp: section.get('allow_jsonp') === 'true',
    globalHandlers: section.get('vhost_global_handlers') ?? '',
  }
}
