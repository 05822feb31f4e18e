/**
 * Other processes that read the stores of an engine for as long as they run. Unlike the holder of a lease they never
 * keep a file in place: they are notified of every change, and after they have applied it they no longer open the old
 * path. Files that they have open stay readable.
 */

/** A store and the file that holds it. */
export interface StorePlace {
  readonly name: string
  readonly path: string
}

/** A file that must not be opened: its pages are damaged, and reading them could end the process. */
export interface RefusedFile {
  readonly path: string
  readonly problem: string
}

export interface StoreFollowers {
  /** A store is new, or has another file. Resolves when all of them know. */
  placed(place: StorePlace): Promise<void>
  /** A store is gone. Resolves when none of them opens it any more. */
  dropped(name: string): Promise<void>
}
