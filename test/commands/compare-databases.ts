/**
 * Everything that can be read of a database over HTTP, as texts that two databases can be compared by: every leaf with its
 * history, its body and the bytes of its attachments, the security object, the limits. Sequences are left out.
 */
export async function contentsOf(url: string, database: string): Promise<Map<string, string>> {
  const base = `${url}${encodeURIComponent(database)}`
  const get = async (path: string): Promise<string> => {
    const reply = await fetch(`${base}${path}`, { headers: { accept: 'application/json' } })
    if (!reply.ok) throw new Error(`${path} is answered with ${reply.status}.`)
    return reply.text()
  }
  const contents = new Map<string, string>()
  for (const path of ['/_security', '/_revs_limit', '/_purged_infos_limit']) contents.set(path, await get(path))
  const { doc_count, doc_del_count, props } = JSON.parse(await get(''))
  contents.set('information', JSON.stringify({ doc_count, doc_del_count, props }))
  const { results }: { results: { id: string }[] } = JSON.parse(await get('/_changes?style=all_docs'))
  for (let first = 0; first < results.length; first += AT_ONCE) {
    const some = results.slice(first, first + AT_ONCE)
    const texts = await Promise.all(
      some.map(({ id }) =>
        get(`/${encodeURIComponent(id)}?open_revs=all&revs=true&attachments=true&att_encoding_info=true`),
      ),
    )
    for (const [i, { id }] of some.entries()) {
      // As text: digits would be lost. Leaves come in any order.
      const leaves = (texts[i] ?? '').slice(1, -1).split(/,?\n/)
      contents.set(id, leaves.toSorted().join('\n'))
    }
  }
  return contents
}

const AT_ONCE = 50
