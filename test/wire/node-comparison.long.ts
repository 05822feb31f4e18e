import { it } from 'vitest'
import { understoodAsNodeDoes } from './node-comparison.ts'

it('understands 20,000 odd requests as Node does, or not at all', () => understoodAsNodeDoes(20_000))
