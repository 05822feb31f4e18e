/**
 * User functions in a secondary: queries of views combine reductions, and the primary runs the reduce functions. Requests that
 * call any other function are forwarded to the primary.
 */
import type { Functions } from '../functions/functions.ts'
import type { SecondaryNode } from './secondary-node.ts'

export function remoteFunctions(node: SecondaryNode): Functions {
  return {
    reduce: (program, groups, { owner, signal }) => node.reduce(program, groups, owner, signal),
    rereduce: (program, groups, { owner, signal }) => node.rereduce(program, groups, owner, signal),
    map: notHere,
    filter: notHere,
    filterByView: notHere,
    validate: notHere,
    show: notHere,
    update: notHere,
    list: notHere,
    prepare: () => {},
    close: async () => {},
  }
}

async function notHere(): Promise<never> {
  throw new Error('Functions run in the primary node.')
}
