/** What the client is told of a query parameter that cannot be meant. */
export { queryParseError } from '../document/request-error.ts'
