/** How the changes of each kind of feed are written, byte for byte. */
import type { LineFrame } from '../../database/changes/change-block-writer.ts'
import type { Headers } from '../server/answer.ts'

export type FeedKind = 'normal' | 'longpoll' | 'continuous' | 'eventsource'

export interface FeedText {
  readonly headers: Headers
  readonly frame: LineFrame
  readonly opening: string
  /** `pending` is the number of changes that may follow the last one. */
  closing(lastSequence: number, pending: number): string
}

/** A heartbeat. */
export const HEARTBEAT = '\n'

const NOTHING = Buffer.alloc(0)
const CLOSING_BRACE = Buffer.from('}')
const LINE_END = Buffer.from('}\r\n')

const OBJECT: FeedText = {
  headers: {},
  frame: { before: NOTHING, after: () => CLOSING_BRACE, between: Buffer.from(',\n') },
  opening: '{"results":[\n',
  closing: (lastSequence, pending) => `\n],\n"last_seq":${lastSequence},"pending":${pending}}\n\n`,
}

const LINES: FeedText = {
  headers: {},
  frame: { before: NOTHING, after: () => LINE_END, between: NOTHING },
  opening: '',
  closing: (lastSequence, pending) => `{"last_seq":${lastSequence},"pending":${pending}}\r\n\n`,
}

/** The headers of a stream of server-sent events. */
export const EVENT_HEADERS: Headers = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' }

const EVENTS: FeedText = {
  headers: EVENT_HEADERS,
  frame: {
    before: Buffer.from('data: '),
    after: (sequence) => Buffer.from(`}\nid: ${sequence}\n\n`),
    between: NOTHING,
  },
  opening: '',
  closing: () => '\n',
}

export const FEED_TEXTS: Readonly<Record<FeedKind, FeedText>> = {
  normal: OBJECT,
  longpoll: OBJECT,
  continuous: LINES,
  eventsource: EVENTS,
}
