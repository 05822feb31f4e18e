/** The list of ways to authenticate, as the setting `httpd/authentication_handlers` has it. */

/**
 * The words that name the handlers of a list such as `{service_httpd_auth, cookie_authentication_handler}` or just
 * `cookie`: what stands before the first underscore of the function.
 */
export function listedHandlers(list: string): string[] {
  const functions = [...list.matchAll(/\{\s*\w+\s*,\s*(\w+)\s*\}|(\w+)/g)].map(([, full, short]) => full ?? short ?? '')
  return functions.map((name) => name.split('_', 1)[0] ?? '')
}
