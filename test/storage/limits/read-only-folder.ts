/** A program for tests: opens the stores of a folder and says which there are. */
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'

const engine = await LmdbEngine.open({ folder: process.argv[2] ?? '' })
process.stdout.write(JSON.stringify(await engine.list()))
await engine.close()
