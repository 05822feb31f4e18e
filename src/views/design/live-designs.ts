/** The view definitions of the design documents of a database that are not deleted. */
import type { Database } from '../../database/database.ts'
import { summarizeRecord } from '../../database/layout/document-record.ts'
import { documentKey, idOfDocumentKey } from '../../database/layout/keys.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import { parseViewDesign, type ViewDesign } from './view-design.ts'

export async function liveDesigns(database: Database): Promise<ViewDesign[]> {
  const designs: ViewDesign[] = []
  using view = database.view()
  let rest: KeyRange | undefined = { from: documentKey('_design/'), to: documentKey('_design0') }
  while (rest) {
    const page: Page = await view.snapshot.page(rest)
    for (let row = 0; row < page.length; row++) {
      const { deleted, body } = summarizeRecord(page.value(row))
      if (deleted) continue
      const { text } = await view.body(body)
      designs.push(parseViewDesign(idOfDocumentKey(page.key(row)), text.toString()))
    }
    rest = page.next
  }
  return designs
}
