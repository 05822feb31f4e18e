import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Database } from '../../../src/database/database.ts'
import type { UserContext } from '../../../src/database/user-context.ts'
import type { DocumentEdit, EditOutcome } from '../../../src/database/writing/edit.ts'
import { RequestError } from '../../../src/document/request-error.ts'
import type { Functions, ValidatedWrite } from '../../../src/functions/functions.ts'
import { MemoryEngine } from '../../../src/storage/memory/memory-engine.ts'
import { local, put, replicated, surroundings } from '../test-database.ts'

const ANN: UserContext = { name: 'ann', roles: [] }

type Validate = (writes: readonly ValidatedWrite[], source: string) => Promise<(Error | undefined)[]>

/** Stands in for the sandbox: the test says what validation functions answer, and when. */
class NotedFunctions {
  readonly asked: { readonly source: string; readonly writes: readonly ValidatedWrite[] }[] = []
  validateWith: Validate = async (writes) => writes.map(() => undefined)

  /** As much of the interface as validation uses. */
  get functions(): Functions {
    const notUsed = () => Promise.reject(new Error('Only validation is asked for here.'))
    return {
      map: notUsed,
      reduce: notUsed,
      rereduce: notUsed,
      filter: notUsed,
      filterByView: notUsed,
      show: notUsed,
      update: notUsed,
      list: notUsed,
      prepare: () => {},
      close: async () => {},
      validate: async ({ text }, writes) => {
        const { validate_doc_update: source }: { validate_doc_update: string } = JSON.parse(text)
        this.asked.push({ source, writes })
        return this.validateWith(writes, source)
      },
    }
  }
}

async function setUp() {
  const noted = new NotedFunctions()
  const store = await new MemoryEngine().create('test')
  const server = await Database.create(store, { ...surroundings(), functions: noted.functions })
  const save = async (edit: DocumentEdit) => {
    const [outcome] = await server.write([edit])
    if (outcome?.outcome !== 'written') throw new Error('The server may write everything.')
    return outcome.revision
  }
  return { noted, server, database: server.usedBy(ANN), save }
}

function design(name: string, source: string, parent?: string): DocumentEdit {
  return put(`_design/${name}`, { validate_doc_update: source }, { parent })
}

function inShort(outcomes: readonly EditOutcome[]): string[] {
  return outcomes.map((each) => (each.outcome === 'written' ? 'written' : each.error.error))
}

const refused = new RequestError('forbidden', 'forbidden', 'No.')
const previousOf = ({ previous }: ValidatedWrite) => previous !== null && JSON.parse(previous)._rev

describe('validated writes', () => {
  it('call nothing where there is no function', async () => {
    const { noted, database } = await setUp()
    expect(inShort(await database.write([put('a', {}), local('_local/a', {})]))).toEqual(['written', 'written'])
    expect(noted.asked).toEqual([])
  })

  it('are those of users, and not those of the server', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'no'))
    noted.validateWith = async (writes) => writes.map(() => refused)
    await save(put('of the server', {}))
    expect(inShort(await database.write([put('a', {})]))).toEqual(['forbidden'])
  })

  it('go to functions together, and what one refuses not to the next', async () => {
    const { noted, database, save } = await setUp()
    await save(design('a', 'second'))
    await save(design('b', 'first'))
    noted.validateWith = async (writes, source) =>
      writes.map(({ document }) => (document.includes(`"${source}"`) ? refused : undefined))
    const edits = [put('x', { is: 'first' }), put('y', { is: 'second' }), put('z', {})]
    expect(inShort(await database.write(edits))).toEqual(['forbidden', 'forbidden', 'written'])
    expect(noted.asked.map(({ source, writes }) => [source, writes.length])).toEqual([
      ['first', 3],
      ['second', 2],
    ])
  })

  it('go to functions in portions when they are many', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    const edits = Array.from({ length: 1201 }, (_, i) => put(`${i}`, {}))
    expect(new Set(inShort(await database.write(edits)))).toEqual(new Set(['written']))
    expect(noted.asked.map(({ writes }) => writes.length)).toEqual([500, 500, 201])
  })

  it('do not delay others while a function runs', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    const gate = Promise.withResolvers<undefined>()
    noted.validateWith = async (writes) => [writes[0]?.document.includes('slow') ? await gate.promise : undefined]
    const slow = database.write([put('slow', {})])
    expect(inShort(await database.write([put('quick', {})]))).toEqual(['written'])
    gate.resolve(undefined)
    expect(inShort(await slow)).toEqual(['written'])
  })

  it('are validated again when a function appears meanwhile', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'old'))
    noted.validateWith = async (writes, source) => {
      if (noted.asked.length === 1) await save(design('w', 'new'))
      return writes.map(() => (source === 'new' ? refused : undefined))
    }
    expect(inShort(await database.write([put('a', {})]))).toEqual(['forbidden'])
    expect(noted.asked.map(({ source }) => source)).toEqual(['old', 'new'])
  })

  it('are validated again when the first function appears between the check and the commit', async () => {
    const { noted, database, server } = await setUp()
    await database.write([put('warm', {})])
    noted.validateWith = async (writes) => writes.map(() => refused)
    // Both wait in the queue at once, the design document first.
    const [, outcomes] = await Promise.all([server.write([design('v', 'v')]), database.write([put('a', {})])])
    // In one commit with it, or before it: nobody could know of the function yet.
    expect(inShort(outcomes)).toEqual(['written'])
    expect(inShort(await database.write([put('b', {})]))).toEqual(['forbidden'])
  })

  it('find a conflict that arose while the function ran', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    const first = await save(put('a', {}))
    noted.validateWith = async (writes) => {
      await save(put('a', { faster: true }, { parent: first }))
      return writes.map(() => undefined)
    }
    expect(inShort(await database.write([put('a', {}, { parent: first })]))).toEqual(['conflict'])
    expect(noted.asked).toHaveLength(1)
  })

  it('are validated again when the parent of a replicated revision arrives meanwhile', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    noted.validateWith = async (writes) => {
      if (noted.asked.length === 1) await save(replicated('a', { start: 1, hashes: ['a'] }, {}))
      return writes.map(() => undefined)
    }
    const edit = replicated('a', { start: 2, hashes: ['b', 'a'] }, {})
    expect(inShort(await database.write([edit]))).toEqual(['written'])
    expect(noted.asked.map(({ writes }) => writes.map(previousOf))).toEqual([[false], ['1-a']])
  })

  it('are validated once when only other documents changed meanwhile', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    noted.validateWith = async (writes) => {
      await save(put(`other-${noted.asked.length}`, {}))
      return writes.map(() => undefined)
    }
    const edits = [replicated('a', { start: 1, hashes: ['a'] }, {}), put('b', {}, { branching: true })]
    expect(inShort(await database.write(edits))).toEqual(['written', 'written'])
    expect(noted.asked).toHaveLength(1)
  })

  it('are given up when the document keeps changing', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    let generation = 0
    noted.validateWith = async (writes) => {
      generation++
      await save(replicated('a', { start: generation, hashes: [`x${generation}`] }, {}))
      return writes.map(() => undefined)
    }
    const edit = replicated('a', { start: 1, hashes: ['a'] }, {})
    await expect(database.write([edit])).rejects.toThrow('service_unavailable')
    expect(noted.asked).toHaveLength(10)
  })

  it('fail together where the function cannot run, and not at all where it does not apply', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    noted.validateWith = async () => {
      throw new RequestError('failed', 'compilation_error', 'No.')
    }
    const edits = [put('a', {}), put('_design/x', {}), local('_local/x', {})]
    expect(inShort(await database.write(edits))).toEqual(['compilation_error', 'written', 'written'])
    noted.validateWith = async () => {
      throw new Error('The server is being closed.')
    }
    await expect(database.write([put('a', {})])).rejects.toThrow('The server is being closed.')
  })

  it('skip a function whose rules are already applied', async () => {
    const { noted, server, save } = await setUp()
    await save(design('own', 'applied already'))
    await save(design('other', 'other'))
    const access = {
      reading: undefined,
      enforced: 'applied already',
      write: (edits: readonly DocumentEdit[], commit: (edits: readonly DocumentEdit[]) => Promise<EditOutcome[]>) =>
        commit(edits),
    }
    await server.usedBy(ANN, access).write([put('a', {})])
    expect(noted.asked.map(({ source }) => source)).toEqual(['other'])
  })
})

describe('validations at the same time', () => {
  const writesOf = (noted: NotedFunctions) => noted.asked.map(({ writes }) => writes.length)

  it('share calls: what arrives while one is under way is part of the next', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    await database.write([put('warm', {})])
    noted.asked.length = 0
    noted.validateWith = async (writes) => {
      await nextTurn()
      return writes.map(() => undefined)
    }
    const outcomes = await Promise.all(Array.from({ length: 50 }, (_, i) => database.write([put(`${i}`, {})])))
    expect(new Set(outcomes.flatMap(inShort))).toEqual(new Set(['written']))
    expect(writesOf(noted).reduce((sum, count) => sum + count)).toBe(50)
    expect(writesOf(noted).length).toBeLessThan(5)
  })

  it('have their own verdicts', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    noted.validateWith = async (writes) =>
      writes.map(({ document }) => (JSON.parse(document).odd ? refused : undefined))
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) => database.write([put(`${i}`, i % 2 === 1 ? { odd: true } : {})])),
    )
    expect(outcomes.flatMap(inShort)).toEqual(outcomes.map((_, i) => (i % 2 === 1 ? 'forbidden' : 'written')))
  })

  it('do not fail because of one that ends the process', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    noted.validateWith = async (writes) => {
      if (writes.some(({ document }) => document.includes('bomb'))) {
        throw new RequestError('failed', 'os_process_error', 'OS process timed out.')
      }
      return writes.map(() => undefined)
    }
    const outcomes = await Promise.all(['a', 'b', 'bomb', 'c'].map((id) => database.write([put(id, {})])))
    expect(outcomes.flatMap(inShort)).toEqual(['written', 'written', 'os_process_error', 'written'])
  })

  it('fail together where the function itself is wrong', async () => {
    const { noted, database, save } = await setUp()
    await save(design('v', 'v'))
    noted.validateWith = async () => {
      await nextTurn()
      throw new RequestError('failed', 'compilation_error', 'No.')
    }
    const outcomes = await Promise.all(['a', 'b', 'c'].map((id) => database.write([put(id, {})])))
    expect(outcomes.flatMap(inShort)).toEqual(Array.from({ length: 3 }, () => 'compilation_error'))
    expect(noted.asked.length).toBeLessThan(3)
  })
})
