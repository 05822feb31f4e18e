import { describe, expect, it, onTestFinished } from 'vitest'
import { Statistics } from '../../src/runtime/statistics.ts'

/** One whose ticks are the test's own. */
function statistics(): Statistics {
  const each = new Statistics({ rateMs: 3_600_000, windowsSeconds: [0, 7200] })
  onTestFinished(() => each.stop())
  return each
}

describe('a statistic', () => {
  it('has a number from the start, and no others before its first event', () => {
    const each = statistics()
    each.flush()
    expect(each.one('httpd', 'requests', 0)).toEqual({
      description: 'number of HTTP requests',
      current: 0,
      sum: null,
      mean: null,
      stddev: null,
      min: null,
      max: null,
    })
  })

  it('counts, a sample a tick', () => {
    const each = statistics()
    each.increment('httpd', 'requests')
    each.increment('httpd', 'requests', 3)
    each.flush()
    expect(each.one('httpd', 'requests', 0)).toMatchObject({
      current: 4,
      sum: 4,
      mean: 4,
      stddev: null,
      min: 4,
      max: 4,
    })
    each.flush()
    each.increment('httpd', 'requests')
    expect(each.one('httpd', 'requests', 0)).toMatchObject({ current: 4, mean: 2, stddev: 2.828, min: 0, max: 4 })
    each.flush()
    expect(each.one('httpd', 'requests', 0)).toMatchObject({ current: 5, mean: 1.667, min: 0, max: 4 })
  })

  it('forgets in a window what is older', () => {
    const each = statistics()
    for (const by of [5, 1, 2]) {
      each.increment('httpd', 'requests', by)
      each.flush()
    }
    expect(each.one('httpd', 'requests', 0)).toMatchObject({ current: 8, max: 5 })
    expect(each.one('httpd', 'requests', 7200)).toMatchObject({ current: 3, max: 2 })
    expect(each.one('httpd', 'requests', 60)).toMatchObject({ current: 0, sum: null })
    expect(each.all(60)).toEqual({})
  })

  it('may be a measurement: the mean of a tick, no sample where nothing was measured', () => {
    const each = statistics()
    each.observe('service', 'request_time', 10)
    each.observe('service', 'request_time', 20)
    each.flush()
    each.flush()
    each.observe('service', 'request_time', 5)
    each.flush()
    expect(each.one('service', 'request_time', 0)).toMatchObject({ sum: 20, mean: 10, min: 5, max: 15 })
  })

  it('may be a gauge', () => {
    const each = statistics()
    let open = 3
    each.gauge('service', 'open_databases', () => open)
    each.flush()
    open = 1
    each.flush()
    expect(each.one('service', 'open_databases', 0)).toMatchObject({ current: 1, min: -2, max: 3 })
    each.restart({ rateMs: 3_600_000, windowsSeconds: [] })
    expect(each.one('service', 'open_databases', 0)).toMatchObject({ current: 0 })
    each.flush()
    expect(each.one('service', 'open_databases', 0)).toMatchObject({ current: 1 })
  })

  it('counts again what is present in other nodes after a restart, until that node ends', () => {
    const each = statistics()
    const node = new Statistics({ rateMs: 3_600_000, windowsSeconds: [] }, { isTaken: true })
    onTestFinished(() => node.stop())
    const leave = node.enter('httpd', 'clients_requesting_changes')
    node.enter('httpd', 'clients_requesting_changes')
    const count = () => {
      each.addIncrements(node, node.takeIncrements())
      each.flush()
      return each.one('httpd', 'clients_requesting_changes', 0).current
    }
    expect(count()).toBe(2)
    each.restart({ rateMs: 3_600_000, windowsSeconds: [] })
    expect(count()).toBe(2)
    leave()
    expect(count()).toBe(1)
    each.forget(node)
    each.flush()
    expect(each.one('httpd', 'clients_requesting_changes', 0).current).toBe(0)
  })

  it('is counted by the same counter after a restart of the statistics', () => {
    const each = statistics()
    const requests = each.counter('httpd', 'requests')
    requests.add(2)
    each.restart({ rateMs: 3_600_000, windowsSeconds: [] })
    each.flush()
    expect(each.one('httpd', 'requests', 0)).toMatchObject({ current: 0, sum: null })
    requests.add(1)
    each.flush()
    expect(each.one('httpd', 'requests', 0)).toMatchObject({ current: 1, sum: 1 })
  })

  it('that is unknown has no description and no numbers', () => {
    const each = statistics()
    each.increment('httpd', 'nosuch')
    each.increment('constructor', 'name')
    expect(each.one('httpd', 'nosuch', 0)).toEqual({
      description: '',
      current: null,
      sum: null,
      mean: null,
      stddev: null,
      min: null,
      max: null,
    })
  })
})
