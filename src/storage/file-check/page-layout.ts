/**
 * How the library of this project lays out the pages of an LMDB file: 64-bit numbers, the lowest byte first. Who reads or
 * writes such pages without the library relies on it; the meta pages tell whether a file is of this form.
 */

/** The same on every platform: the library's default follows the memory pages of the machine. */
export const LMDB_PAGE_BYTES = 8192

export const PAGE_KIND = { branch: 0x01, leaf: 0x02, overflow: 0x04, meta: 0x08 } as const

/** Number of the page, of the transaction, two bytes of no use here, kind, and two numbers that depend on the kind. */
export const PAGE_HEADER_BYTES = 24
export const KIND_AT = 18
/** In a branch or leaf: where the places of its nodes end, and where the nodes begin, both counted from the header on. */
export const PLACES_END_AT = 20
export const NODES_START_AT = 22
/** In the first page of a value that has pages of its own: how many. */
export const OVERFLOW_PAGES_AT = 20

/** Size of the value or number of the page below, flags, size of the key. */
export const NODE_HEADER_BYTES = 8
export const FLAGS_AT = 4
export const KEY_SIZE_AT = 6
export const PLACE_BYTES = 2

/** Of a node whose value lies elsewhere. */
export const OVERFLOW_FLAG = 0x01
/** Where that is: first page, transaction, number of pages. */
export const OVERFLOW_PLACE_BYTES = 24
