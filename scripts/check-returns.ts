/**
 * Finds promises that are returned out of a scope that ends before they do: `return <promise>` without `await` inside
 * `try`, or after `using` and `await using`. The scope is left at once then, so that what the promise still works with is
 * released under it, and its failure passes by `catch`. Part of `npm run check`; gives each place and fails.
 */
import { relative, resolve } from 'node:path'
import { type Expression, type Node, NodeFlags } from 'typescript/unstable/ast'
import {
  isArrowFunction,
  isAwaitExpression,
  isBlock,
  isCaseClause,
  isConstructorDeclaration,
  isDefaultClause,
  isFunctionDeclaration,
  isFunctionExpression,
  isGetAccessorDeclaration,
  isMethodDeclaration,
  isReturnStatement,
  isSetAccessorDeclaration,
  isSourceFile,
  isTryStatement,
  isVariableStatement,
} from 'typescript/unstable/ast/is'
import { API, type Checker } from 'typescript/unstable/sync'

const root = resolve(import.meta.dirname, '..')
const configuration = resolve(process.argv[2] ?? resolve(root, 'tsconfig.json'))

using api = openApi()
const snapshot = api.updateSnapshot({ openProjects: [configuration] })
const project = snapshot.getProject(configuration)
if (!project) throw new Error(`${configuration} is not a project.`)

const found: string[] = []
for (const name of project.program.getSourceFileNames()) {
  if (name.includes('/node_modules/')) continue
  const file = project.program.getSourceFile(name)
  if (!file) continue
  for (const expression of earlyReturns(file)) {
    if (!isPromise(project.checker, expression)) continue
    const { line, character } = file.getLineAndCharacterOfPosition(expression.getStart())
    found.push(`${relative(process.cwd(), name)}:${line + 1}:${character + 1}`)
  }
}
for (const place of found) console.error(`${place} returns a promise without await out of a scope that it needs`)
if (found.length > 0) process.exitCode = 1

function openApi(): API & Disposable {
  const api = new API({ cwd: root })
  return Object.assign(api, { [Symbol.dispose]: () => api.close() })
}

/** What is returned without `await` from a scope that does something at its end. */
function* earlyReturns(node: Node): Generator<Expression> {
  if (isReturnStatement(node) && node.expression && !isAwaitExpression(node.expression) && leavesScope(node)) {
    yield node.expression
  }
  const children: Node[] = []
  node.forEachChild((child) => void children.push(child))
  for (const child of children) yield* earlyReturns(child)
}

function leavesScope(node: Node): boolean {
  for (let child = node, parent = node.parent; !isFunction(child) && !isSourceFile(child); ) {
    if (isTryStatement(parent)) {
      if (child === parent.tryBlock) return true
      if (child === parent.catchClause && parent.finallyBlock) return true
    }
    if (isBlock(parent) || isCaseClause(parent) || isDefaultClause(parent)) {
      for (const statement of parent.statements) {
        if (statement === child) break
        if (isVariableStatement(statement) && isUsing(statement.declarationList.flags)) return true
      }
    }
    child = parent
    parent = parent.parent
  }
  return false
}

function isFunction(node: Node): boolean {
  return [
    isArrowFunction,
    isFunctionDeclaration,
    isFunctionExpression,
    isMethodDeclaration,
    isConstructorDeclaration,
    isGetAccessorDeclaration,
    isSetAccessorDeclaration,
  ].some((is) => is(node))
}

/** `await using` is the flags of `using` and `const` together. */
function isUsing(flags: NodeFlags): boolean {
  return (flags & NodeFlags.Using) !== 0
}

function isPromise(checker: Checker, expression: Expression): boolean {
  const type = checker.getTypeAtLocation(expression)
  if (!type) return false
  const alternatives = type.isUnionType() ? type.getTypes() : [type]
  return alternatives.some((each) => checker.getPropertyOfType(each, 'then') !== undefined)
}
