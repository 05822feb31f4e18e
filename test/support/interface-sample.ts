/** Data that shows each screen of the administration interface with something on it. */

const TITLES = [
  'Fish stew',
  'Rice',
  'Lentil soup',
  'Borscht',
  'Pad thai',
  'Ratatouille',
  'Paella',
  'Ramen',
  'Goulash',
  'Shakshuka',
  'Pho',
  'Tagine',
]

const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export async function fillWithSample(url: string): Promise<void> {
  const send = async (method: string, path: string, body?: unknown): Promise<{ rev: string }> => {
    const reply = await fetch(url + path, {
      method,
      headers: { 'Content-Type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    if (reply.status >= 300) throw new Error(`${method} ${path}: ${await reply.text()}`)
    return (await reply.json()) as { rev: string }
  }
  for (const name of ['customers', 'orders', 'recipes', 'sensor-readings']) await send('PUT', name)
  const recipes = Array.from({ length: 240 }, (_, index) => {
    const title = TITLES[index % TITLES.length] ?? ''
    return {
      _id: `${title.toLowerCase().replace(' ', '-')}${index < TITLES.length ? '' : `-${index}`}`,
      title,
      servings: (index % 7) + 1,
      minutes: 10 + ((index * 7) % 50),
      tags: ['warm', index % 2 === 0 ? 'fish' : 'vegan'],
      published: index % 3 === 0,
    }
  })
  await send('POST', 'recipes/_bulk_docs', { docs: recipes })
  const orders = Array.from({ length: 500 }, (_, index) => ({ _id: `order-${1000 + index}`, total: index * 1.25 }))
  await send('POST', 'orders/_bulk_docs', { docs: orders })
  await send('PUT', 'recipes/_design/by', {
    language: 'javascript',
    views: {
      tags: {
        map: 'function (doc) {\n  for (const tag of doc.tags || []) emit([tag, doc.title], 1)\n}',
        reduce: '_count',
      },
      minutes: { map: 'function (doc) {\n  emit(doc.minutes, doc.title)\n}' },
    },
    filters: { vegan: "function (doc) {\n  return doc.tags && doc.tags.includes('vegan')\n}" },
  })
  await addConflict(url, send)
  const fish = (await (await fetch(`${url}recipes/fish-stew`)).json()) as { _rev: string }
  await send('PUT', 'recipes/fish-stew', {
    ...fish,
    _attachments: {
      'stew.png': { content_type: 'image/png', data: PICTURE },
      'note.txt': { content_type: 'text/plain', data: Buffer.from('Less salt.\n').toString('base64') },
    },
  })
  for (const [name, roles] of [
    ['ada', ['cook']],
    ['grace', ['cook', 'editor']],
  ] as const) {
    await send('PUT', `_users/org.service.user:${name}`, { name, password: 'a secret', roles, type: 'user' })
  }
}

async function addConflict(
  url: string,
  send: (method: string, path: string, body?: unknown) => Promise<{ rev: string }>,
): Promise<void> {
  const first = (await (await fetch(`${url}recipes/rice`)).json()) as { _rev: string }
  const { rev } = await send('PUT', 'recipes/rice', { ...first, servings: 3 })
  await send('PUT', 'recipes/rice', { ...first, _rev: rev, servings: 4 })
  const ids = ['f00dfeed000000000000000000000000', first._rev.slice(2)]
  const other = { ...first, _rev: `2-${ids[0]}`, _revisions: { start: 2, ids }, title: 'Rice, fried' }
  await send('POST', 'recipes/_bulk_docs', { new_edits: false, docs: [other] })
}

/** Every screen, by a name for its picture. */
export const SCREENS: readonly (readonly [name: string, hash: string])[] = [
  ['overview', '#/'],
  ['databases', '#/databases'],
  ['documents', '#/db/recipes/documents'],
  ['documents-json', '#/db/recipes/documents?view=json'],
  ['document', '#/db/recipes/documents/fish-stew'],
  ['attachments', '#/db/recipes/documents/fish-stew?tab=attachments'],
  ['history', '#/db/recipes/documents/rice?tab=history'],
  ['views', '#/db/recipes/views/by/views/tags?group=true&group_level=1'],
  ['chart', '#/db/recipes/views/by/views/tags?group=true&look=chart'],
  ['view-source', '#/db/recipes/views/by/views/minutes?tab=source'],
  ['query', '#/db/recipes/query?selector=%7B%22servings%22%3A%7B%22%24gte%22%3A4%7D%7D'],
  ['changes', '#/db/recipes/changes'],
  ['conflicts', '#/db/recipes/conflicts'],
  ['rights', '#/db/recipes/rights'],
  ['settings', '#/db/recipes/settings'],
  ['replication', '#/replication'],
  ['users', '#/users'],
  ['configuration', '#/configuration'],
  ['log', '#/log'],
  ['sign-in', '#/sign-in'],
]
