/** A text of a reply between others, as one piece: each piece of a streamed reply costs a turn of its own. */
export function enclosed(before: string, text: Buffer, after: string): Buffer {
  return Buffer.concat([Buffer.from(before), text, Buffer.from(after)])
}
