/** What the server calls itself where CouchDB has clusters. */
export const NODE_NAME = 'service@127.0.0.1'
