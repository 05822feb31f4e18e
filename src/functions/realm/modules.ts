/** `require` of user functions: any text of a design document is a module. */
import type { Failures } from './failure.ts'

export type Require = (path: string) => unknown

export interface Modules {
  /** Modules are looked for in this object; what was loaded of another one is forgotten. */
  use(root: unknown): void
  readonly require: Require
}

interface Module {
  readonly id: string
  readonly current: string
  readonly parent: Holder | undefined
  exports: unknown
}

/** A place in the tree of the root. */
interface Holder {
  readonly id: string
  readonly current: unknown
  /** Undefined for the root and for what no path leads to. */
  readonly parent: Holder | undefined
}

export function realmModules({ failure, isFailure, describe }: Failures): Modules {
  const { stringify } = JSON
  const { hasOwn, create } = Object
  const MakeFunction = Function
  const lost: Holder = { id: '', current: undefined, parent: undefined }
  let root: Holder = lost
  let loaded: Record<string, unknown> = create(null)

  const invalidPath = (reason: string) => failure('invalid_require_path', reason)

  const above = (holder: Holder): Holder => {
    // The root itself cannot be reached from below.
    if (!holder.parent?.parent) throw invalidPath(`Object has no parent ${stringify(holder.current)}`)
    return holder.parent
  }

  const stay = (holder: Holder): Holder => {
    if (!holder.parent) throw invalidPath(`Object has no parent ${stringify(holder.current)}`)
    return holder
  }

  const member = (holder: Holder, name: string): Holder => {
    const { current, id } = holder
    if (typeof current !== 'object' || current === null || !hasOwn(current, name)) {
      throw invalidPath(`Object has no property "${name}". ${stringify(current)}`)
    }
    return {
      id: id === '' ? name : `${id}/${name}`,
      current: (current as Record<string, unknown>)[name],
      parent: holder,
    }
  }

  const resolve = (path: string, from: Holder): Holder => {
    const names = path.split('/')
    let holder = names[0] === '.' || names[0] === '..' ? from : root
    for (const name of names) {
      if (name === '.') holder = stay(holder)
      else if (name === '..') holder = above(holder)
      else holder = member(holder, name)
    }
    return holder
  }

  const load = (path: string, { id, current, parent }: Holder): unknown => {
    if (typeof current !== 'string') {
      throw invalidPath(`Must require a JavaScript string, not: ${typeof current}`)
    }
    const module: Module = { id, current, parent, exports: {} }
    // Who asks for it while it loads gets an object that stays empty.
    loaded[id] = {}
    try {
      const run = MakeFunction('module', 'exports', 'require', current)
      run.call({}, module, module.exports, requireFrom(parent ?? lost))
    } catch (error) {
      delete loaded[id]
      const detail = isFailure(error) ? `${error.id}: ${describe(error.reason)}` : describe(error)
      throw failure('compilation_error', `Module require('${path}') raised error ${detail}`)
    }
    loaded[id] = module.exports
    return module.exports
  }

  const requireFrom =
    (from: Holder): Require =>
    (path) => {
      const holder = resolve(`${path}`, from)
      return holder.id in loaded ? loaded[holder.id] : load(path, holder)
    }

  return {
    use(value) {
      root = { id: '', current: value, parent: undefined }
      loaded = create(null)
    },
    require: requireFrom(lost),
  }
}
