/** Every resource of the server, in one table: path, methods, handler. */
import { type Route, route } from './route.ts'
import { allDatabases, serverInformation, uuids } from './server-resource.ts'

export const routes: readonly Route[] = [
  route('/', 'GET,HEAD', { GET: serverInformation }),
  route('/_all_dbs', 'GET,HEAD', { GET: allDatabases }),
  route('/_uuids', 'GET', { GET: uuids }),
]
