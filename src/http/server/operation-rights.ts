/** Who may use an operation. */

/**
 * Who may do something, from everybody to few. A `writer` is a member, and a database admin where a design document is
 * written: only the handler knows which document that is.
 */
export type Who = 'anyone' | 'member' | 'writer' | 'database admin' | 'server admin'
