/** The text format of Prometheus, read strictly: every sample belongs to a family that was declared before it. */
import { expect } from 'vitest'
import type { Client } from './client.ts'

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Scrape {
  /** Their types, by name. */
  readonly families: ReadonlyMap<string, string>
  readonly samples: readonly Sample[]
  /** The one sample with this name and these labels. */
  value(name: string, labels?: Readonly<Record<string, string>>): number
}

const SAMPLE = /^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$/
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g

export async function scrape(client: Client): Promise<Scrape> {
  const reply = await client.request('GET', '/_node/_local/_prometheus')
  expect(reply.status).toBe(200)
  expect(reply.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
  return parsed(reply.text)
}

function parsed(text: string): Scrape {
  const families = new Map<string, string>()
  const samples: Sample[] = []
  for (const line of text.trimEnd().split('\n')) {
    const [, name, type] = /^# TYPE ([a-z_]+) (counter|gauge|histogram|summary)$/.exec(line) ?? []
    if (name !== undefined && type !== undefined) {
      expect(families.has(name), `${name} is declared twice`).toBe(false)
      families.set(name, type)
    } else if (!line.startsWith('# HELP ')) samples.push(sampleOf(line, families))
  }
  return {
    families,
    samples,
    value(name, labels = {}) {
      const found = samples.filter((sample) => sample.name === name && isSame(sample.labels, labels))
      expect(found, `${name} ${JSON.stringify(labels)}`).toHaveLength(1)
      return found[0]?.value ?? Number.NaN
    },
  }
}

function sampleOf(line: string, families: ReadonlyMap<string, string>): Sample {
  const [, name = '', labelText = '', number = ''] = SAMPLE.exec(line) ?? []
  expect(name, line).not.toBe('')
  const family = families.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '')
  expect(families.has(family), line).toBe(true)
  const value = Number(number)
  expect(value, line).not.toBeNaN()
  const labels = Object.fromEntries([...labelText.matchAll(LABEL)].map(([, label = '', text = '']) => [label, text]))
  return { name, labels, value }
}

function isSame(one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean {
  return JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort())
}
