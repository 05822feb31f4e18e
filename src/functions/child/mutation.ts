/**
 * Decides whether map functions leave their document and their emitted values unchanged. Where that is certain, documents
 * need not be frozen and rows are serialized many at a time, which takes half of the time. It is certain only for functions
 * that use nothing but the syntax, functions and methods listed here. Anything else counts as a change.
 */
import type {
  AnyNode,
  CallExpression,
  Expression,
  Function as FunctionNode,
  Pattern,
  Program,
  SpreadElement,
} from 'acorn'

/** Parses a script; throws where it is not valid. */
export type Parse = (script: string) => Program

/** Whether all functions of an index, which share one realm, leave everything as it is. */
export function changeNothing(sources: readonly string[], parse: Parse): boolean {
  return sources.every((source) => changesNothing(source, parse))
}

/** Longer ones are taken for what they may be: it is not worth the time to look. */
const LONGEST_SOURCE = 64 * 1024

function changesNothing(source: string, parse: Parse): boolean {
  // Comments of old browsers: parsers differ in where they see them.
  if (source.length > LONGEST_SOURCE || source.includes('<!--') || source.includes('-->')) return false
  try {
    const { body } = parse(`(${source}\n)`)
    const [statement, ...more] = body
    if (statement?.type !== 'ExpressionStatement' || more.length > 0) return false
    const { expression } = statement
    if (expression.type !== 'FunctionExpression' && expression.type !== 'ArrowFunctionExpression') return false
    const inspection = new Inspection()
    inspection.visit(expression)
    return inspection.callsKnownFunctions
  } catch {
    // It does not parse, or is nested too deeply, or has something that is not listed.
    return false
  }
}

/** Functions of the environment and of the language that change nothing, whatever they are given. */
const FUNCTIONS = new Set(
  (
    'emit log sum isArray toJSON Number String Boolean Date parseInt parseFloat isNaN isFinite ' +
    'encodeURIComponent decodeURIComponent encodeURI decodeURI escape unescape'
  ).split(' '),
)

/** What `new` makes of these stays as it is: no method that changes it is listed. */
const CONSTRUCTORS = new Set(['Date', 'RegExp'])

/** Methods, of whatever object, that change nothing and call no function that they are given. */
const METHODS = new Set(
  (
    'at charAt charCodeAt codePointAt concat endsWith entries exec flat fromCharCode fromCodePoint hasOwnProperty includes ' +
    'indexOf isArray isFinite isInteger isNaN isSafeInteger join keys lastIndexOf localeCompare match normalize now padEnd ' +
    'padStart parseFloat parseInt repeat search slice split startsWith substr substring test trim trimEnd trimStart UTC valueOf ' +
    'values toDateString toExponential toFixed toISOString toLocaleDateString toLocaleLowerCase toLocaleString ' +
    'toLocaleTimeString toLocaleUpperCase toLowerCase toPrecision toString toTimeString toUTCString toUpperCase ' +
    'getDate getDay getFullYear getHours getMilliseconds getMinutes getMonth getSeconds getTime getTimezoneOffset ' +
    'getUTCDate getUTCDay getUTCFullYear getUTCHours getUTCMilliseconds getUTCMinutes getUTCMonth getUTCSeconds getYear ' +
    'abs acos asin atan atan2 cbrt ceil cos exp floor hypot log log10 log2 max min pow random round sign sin sqrt tan trunc'
  ).split(' '),
)

/** The same, with one thing given: a second one could be a function. */
const METHODS_OF_ONE = new Set(['parse', 'stringify'])

/** Methods that call the function they are given, which has to be a known one; more could be its `this`. */
const CALLING_METHODS = new Set(
  'every filter find findIndex findLast findLastIndex flatMap forEach map some'.split(' '),
)
const FOLDING_METHODS = new Set(['reduce', 'reduceRight'])
const REPLACING_METHODS = new Set(['replace', 'replaceAll'])

/** Members that code of the engine calls, or that are no members. */
const SPECIAL_MEMBERS = new Set(['toJSON', 'toString', 'valueOf', '__proto__', 'constructor', 'then'])

class NotListed extends Error {}

/** What a name stands for in a scope. */
interface Binding {
  declarations: number
  /** How many of them are of functions. */
  functions: number
  isAssigned: boolean
}

class Scope {
  readonly #bindings = new Map<string, Binding>()
  readonly parent: Scope | undefined
  /** That of the function, where `var` declares. */
  readonly outermost: Scope

  constructor(parent: Scope | undefined, isOfFunction: boolean) {
    this.parent = parent
    this.outermost = isOfFunction || !parent ? this : parent.outermost
  }

  declare(name: string, isOfFunction: boolean): void {
    const binding = this.#bindings.get(name) ?? { declarations: 0, functions: 0, isAssigned: false }
    binding.declarations++
    if (isOfFunction) binding.functions++
    this.#bindings.set(name, binding)
  }

  /** Undefined where it is a name of the environment, or of nothing. */
  find(name: string): Binding | undefined {
    return this.#bindings.get(name) ?? this.parent?.find(name)
  }
}

/** A name where it is used. Names can be used before they are declared: they are looked up when all is visited. */
interface Use {
  readonly name: string
  readonly scope: Scope
}

/** Goes through one function. */
class Inspection {
  #scope = new Scope(undefined, true)
  readonly #assigned: Use[] = []
  readonly #called: Use[] = []
  readonly #constructed: Use[] = []

  /** To be asked when all is visited. */
  get callsKnownFunctions(): boolean {
    for (const { name, scope } of this.#assigned) {
      const binding = scope.find(name)
      if (!binding) return false
      binding.isAssigned = true
    }
    return (
      this.#constructed.every(({ name, scope }) => CONSTRUCTORS.has(name) && !scope.find(name)) &&
      this.#called.every(isKnown)
    )
  }

  visit(node: AnyNode | null | undefined): undefined {
    if (!node) return
    switch (node.type) {
      case 'BlockStatement':
        return this.#within(() => this.#visitAll(node.body))
      case 'ExpressionStatement':
        return this.visit(node.expression)
      case 'IfStatement':
      case 'ConditionalExpression':
        return this.#visitAll([node.test, node.consequent, node.alternate])
      case 'ForStatement':
        return this.#within(() => this.#visitAll([node.init, node.test, node.update, node.body]))
      case 'ForInStatement':
      case 'ForOfStatement':
        if (node.type === 'ForOfStatement' && node.await) throw new NotListed()
        return this.#within(() => {
          if (node.left.type === 'VariableDeclaration') this.visit(node.left)
          else this.#assign(node.left)
          this.#visitAll([node.right, node.body])
        })
      case 'WhileStatement':
      case 'DoWhileStatement':
        return this.#visitAll([node.test, node.body])
      case 'SwitchStatement':
        return this.#within(() => this.#visitAll([node.discriminant, ...node.cases]))
      case 'SwitchCase':
        return this.#visitAll([node.test, ...node.consequent])
      case 'TryStatement':
        return this.#visitAll([node.block, node.handler, node.finalizer])
      case 'CatchClause':
        return this.#within(() => {
          this.#declare(node.param, this.#scope)
          this.visit(node.body)
        })
      case 'ReturnStatement':
      case 'ThrowStatement':
      case 'SpreadElement':
        return this.visit(node.argument)
      case 'VariableDeclaration':
        if (node.kind !== 'var' && node.kind !== 'let' && node.kind !== 'const') throw new NotListed()
        for (const { id, init } of node.declarations) {
          this.#declare(id, node.kind === 'var' ? this.#scope.outermost : this.#scope, isFunction(init))
          this.visit(init)
        }
        return
      case 'FunctionDeclaration':
        this.#declare(node.id, this.#scope, true)
        return this.#visitFunction(node)
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        return this.#visitFunction(node)
      case 'AssignmentExpression':
        this.#assign(node.left)
        return this.visit(node.right)
      case 'UpdateExpression':
        return this.#assign(node.argument)
      case 'UnaryExpression':
        if (node.operator === 'delete') throw new NotListed()
        return this.visit(node.argument)
      case 'BinaryExpression':
      case 'LogicalExpression':
        if (node.left.type === 'PrivateIdentifier') throw new NotListed()
        return this.#visitAll([node.left, node.right])
      case 'SequenceExpression':
        return this.#visitAll(node.expressions)
      case 'TemplateLiteral':
        return this.#visitAll(node.expressions)
      case 'ChainExpression':
        return this.visit(node.expression)
      case 'MemberExpression':
        if (node.object.type === 'Super') throw new NotListed()
        this.visit(node.object)
        return node.computed ? this.visit(node.property) : undefined
      case 'CallExpression':
        return this.#visitCall(node)
      case 'NewExpression':
        if (node.callee.type !== 'Identifier') throw new NotListed()
        this.#constructed.push({ name: node.callee.name, scope: this.#scope })
        return this.#visitAll(node.arguments)
      case 'ArrayExpression':
        return this.#visitAll(node.elements)
      case 'ObjectExpression':
        return this.#visitAll(node.properties)
      case 'Property':
        if (node.kind !== 'init' || node.computed || SPECIAL_MEMBERS.has(keyOf(node.key))) throw new NotListed()
        return this.visit(node.value)
      case 'Literal':
        if (typeof node.value === 'bigint' || node.bigint) throw new NotListed()
        return
      case 'Identifier':
        if (node.name === 'arguments') throw new NotListed()
        return
      case 'EmptyStatement':
      case 'BreakStatement':
      case 'ContinueStatement':
        return
      default:
        throw new NotListed()
    }
  }

  #visitAll(nodes: readonly (AnyNode | null | undefined)[]): undefined {
    for (const node of nodes) this.visit(node)
  }

  #visitFunction(node: FunctionNode): undefined {
    if (node.async || node.generator) throw new NotListed()
    this.#within(() => {
      if (node.type === 'FunctionExpression') this.#declare(node.id, this.#scope, true)
      for (const parameter of node.params) this.#declare(parameter, this.#scope)
      this.visit(node.body)
    }, true)
  }

  #within(visit: () => void, isOfFunction = false): undefined {
    const outer = this.#scope
    this.#scope = new Scope(outer, isOfFunction)
    visit()
    this.#scope = outer
  }

  #visitCall({ callee, arguments: given }: CallExpression): undefined {
    if (callee.type === 'Identifier') {
      this.#called.push({ name: callee.name, scope: this.#scope })
      return this.#visitAll(given)
    }
    if (callee.type === 'FunctionExpression' || callee.type === 'ArrowFunctionExpression') {
      return this.#visitAll([callee, ...given])
    }
    if (callee.type !== 'MemberExpression' || callee.computed || callee.property.type !== 'Identifier') {
      throw new NotListed()
    }
    this.visit(callee)
    this.#visitMethodArguments(callee.property.name, given)
  }

  #visitMethodArguments(method: string, given: readonly (Expression | SpreadElement)[]): undefined {
    const [first, second] = given
    if (METHODS.has(method)) return this.#visitAll(given)
    if (METHODS_OF_ONE.has(method) && given.length === 1 && first?.type !== 'SpreadElement') return this.visit(first)
    if (CALLING_METHODS.has(method) && given.length === 1) return this.#visitCallback(first)
    if (FOLDING_METHODS.has(method) && given.length <= 2 && second?.type !== 'SpreadElement') {
      this.#visitCallback(first)
      return this.visit(second)
    }
    if (REPLACING_METHODS.has(method) && given.length === 2 && first?.type !== 'SpreadElement') {
      this.visit(first)
      if (second?.type === 'Literal' || second?.type === 'TemplateLiteral') return this.visit(second)
      return this.#visitCallback(second)
    }
    throw new NotListed()
  }

  #visitCallback(node: Expression | SpreadElement | undefined): undefined {
    if (node?.type === 'Identifier') this.#called.push({ name: node.name, scope: this.#scope })
    else if (isFunction(node)) this.visit(node)
    else throw new NotListed()
  }

  #assign(target: AnyNode): undefined {
    if (target.type !== 'Identifier') throw new NotListed()
    this.#assigned.push({ name: target.name, scope: this.#scope })
  }

  #declare(pattern: Pattern | null | undefined, scope: Scope, isOfFunction = false): undefined {
    if (!pattern) return
    switch (pattern.type) {
      case 'Identifier':
        scope.declare(pattern.name, isOfFunction)
        return
      case 'AssignmentPattern':
        this.#declare(pattern.left, scope)
        return this.visit(pattern.right)
      case 'RestElement':
        return this.#declare(pattern.argument, scope)
      case 'ArrayPattern':
        for (const element of pattern.elements) this.#declare(element, scope)
        return
      case 'ObjectPattern':
        for (const property of pattern.properties) {
          if (property.type === 'Property' && property.computed) throw new NotListed()
          this.#declare(property.type === 'Property' ? property.value : property, scope)
        }
        return
      default:
        throw new NotListed()
    }
  }
}

function isKnown({ name, scope }: Use): boolean {
  const binding = scope.find(name)
  if (!binding) return FUNCTIONS.has(name)
  return binding.functions === binding.declarations && !binding.isAssigned
}

function isFunction(node: AnyNode | null | undefined): boolean {
  return node?.type === 'FunctionExpression' || node?.type === 'ArrowFunctionExpression'
}

function keyOf(key: Expression | { readonly type: 'PrivateIdentifier' }): string {
  if (key.type === 'Identifier') return key.name
  return key.type === 'Literal' ? String(key.value) : '__proto__'
}
