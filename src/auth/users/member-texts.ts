/** The members of a stored document as texts: what is not meant to change stays as it was sent, digits and order. */
import { JsonReader } from '../../encoding/json/json-text.ts'
import { quoteText } from '../../encoding/json/json-text-splice.ts'

/** The texts of chosen members, each with its name, for `spliceObject`. */
export function memberTexts(body: Buffer, isWanted: (name: string) => boolean): Buffer[] {
  const reader = new JsonReader(body)
  const texts: Buffer[] = []
  for (const name of reader.members()) {
    if (isWanted(name)) texts.push(Buffer.concat([Buffer.from(`${quoteText(name)}:`), reader.text()]))
  }
  reader.end()
  return texts
}
