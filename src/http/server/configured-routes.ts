/**
 * Resources that the operator adds by settings: below a database, a program of `[external]` that answers; at the top,
 * another server. They stand behind the table of routes: no name of it can be taken over.
 */
import type { Configuration } from '../../config/configuration.ts'
import { parseTerm } from '../../config/term-text.ts'
import { forwardRequest } from '../admin/proxy-resource.ts'
import { externalRequest } from '../design-functions/external-resource.ts'
import { ANY_METHOD, anyone, member, type Route, route } from './route.ts'
import { routes } from './routes.ts'

/** The resource of these segments; undefined where no setting has one. */
export function configuredRoute(
  first: string,
  second: string | undefined,
  configuration: Configuration,
): Route | undefined {
  if (first.startsWith('_')) {
    const url = handlerArgument(configuration, 'httpd_global_handlers', first, PROXY)
    if (url !== undefined) return proxyRoute(url)
  }
  if (!second?.startsWith('_') || routes.hasDatabaseAction(second)) return undefined
  const program = handlerArgument(configuration, 'httpd_db_handlers', second, EXTERNAL)
  return program === undefined ? undefined : externalRoute(program)
}

const PROXY = 'handle_proxy_req'
const EXTERNAL = 'handle_external_req'

function proxyRoute(url: string): Route {
  return route('/{proxy}', ANY_METHOD, { [ANY_METHOD]: anyone((call) => forwardRequest(call, url)) })
}

/** Of an empty name the next segment is the name. */
function externalRoute(program: string): Route {
  const handler = member((call, context) => externalRequest(call, context, program))
  return route('/{db}/{external}', ANY_METHOD, { [ANY_METHOD]: handler })
}

/**
 * The third part of a value such as `{service_httpd_proxy, handle_proxy_req, <<"http://127.0.0.1:8000">>}`, empty where
 * there is none; undefined for another function. It must be as this start was given it: who may change settings over HTTP
 * does not choose to where requests go.
 */
function handlerArgument(
  configuration: Configuration,
  section: string,
  key: string,
  handler: string,
): string | undefined {
  const value = configuration.get(section, key)
  if (!value?.includes(handler)) return undefined
  const [, name, argument] = parseTerm(value)?.items ?? []
  if (name?.text !== handler || value !== configuration.startupSection(section).get(key)) return undefined
  return argument?.text ?? ''
}
