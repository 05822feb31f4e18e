/** Every statistic that the server keeps, with the sentence that describes it. */

export const STATISTICS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  service: {
    auth_cache_hits: 'number of authentication cache hits',
    auth_cache_misses: 'number of authentication cache misses',
    database_reads: 'number of times a document was read from a database',
    database_writes: 'number of times a database was changed',
    open_databases: 'number of open databases',
    open_os_files: 'number of file descriptors the server has open',
    request_time: 'length of a request inside the server, in milliseconds',
  },
  httpd: {
    bulk_requests: 'number of bulk requests',
    clients_requesting_changes: 'number of clients for continuous _changes',
    requests: 'number of HTTP requests',
    temporary_view_reads: 'number of temporary view reads',
    view_reads: 'number of view reads',
  },
  httpd_request_methods: Object.fromEntries(
    ['COPY', 'DELETE', 'GET', 'HEAD', 'POST', 'PUT'].map((method) => [method, `number of HTTP ${method} requests`]),
  ),
  httpd_status_codes: {
    '200': 'number of HTTP 200 OK responses',
    '201': 'number of HTTP 201 Created responses',
    '202': 'number of HTTP 202 Accepted responses',
    '301': 'number of HTTP 301 Moved Permanently responses',
    '304': 'number of HTTP 304 Not Modified responses',
    '400': 'number of HTTP 400 Bad Request responses',
    '401': 'number of HTTP 401 Unauthorized responses',
    '403': 'number of HTTP 403 Forbidden responses',
    '404': 'number of HTTP 404 Not Found responses',
    '405': 'number of HTTP 405 Method Not Allowed responses',
    '409': 'number of HTTP 409 Conflict responses',
    '412': 'number of HTTP 412 Precondition Failed responses',
    '500': 'number of HTTP 500 Internal Server Error responses',
  },
}
