/** The rank trees of an index, one a view: counts of its rows, and reductions where the design document has any. */
import type { Functions } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import { RankTree } from '../../storage/rank-tree/rank-tree.ts'
import type { ViewDesign } from '../design/view-design.ts'
import { namedReduction } from '../reductions/named-reduction.ts'
import { ViewReducer } from '../reductions/view-reducer.ts'
import { nodePrefix, rowPrefix } from './index-layout.ts'

export interface ViewTree {
  readonly ranks: RankTree
  /** Undefined where there is nothing to reduce. */
  readonly reducer: ViewReducer | undefined
}

/** By the number of the view's rows. The salt is in hexadecimal digits. */
export function viewTrees(design: ViewDesign, salt: string, functions: Functions, run: Run): ViewTree[] {
  const saltBytes = Buffer.from(salt, 'hex')
  return design.maps.map(({ reduces }, view) => {
    const reductions = reduces.map((source) => namedReduction(source, design.language, functions, run))
    const reducer = reductions.length > 0 ? new ViewReducer(reductions) : undefined
    const ranks = new RankTree({
      rowPrefix: rowPrefix(view),
      nodePrefix: nodePrefix(view),
      salt: saltBytes,
      ...(reducer && { reducer }),
    })
    return { ranks, reducer }
  })
}
