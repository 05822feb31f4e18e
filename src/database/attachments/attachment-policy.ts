/** Which attachments are accepted and which are compressed, by the configuration. */
import type { Configuration } from '../../config/configuration.ts'
import type { AttachmentPolicy } from './attachment-edits.ts'

export function attachmentPolicy(configuration: Configuration): AttachmentPolicy {
  const level = configuration.integer('attachments', 'compression_level')
  const types = configuration.text('attachments', 'compressible_types')
  const largest = configuration.text('service', 'max_attachment_size')
  return {
    levelFor: (contentType) => (level >= 1 && level <= 9 && isListed(contentType, types) ? level : undefined),
    limitFor: (name) => (largest === 'infinity' ? undefined : { name, bytes: Number(largest) }),
  }
}

/** The list has wildcards; parameters of a type do not matter, nor does its case. */
function isListed(contentType: string, types: string): boolean {
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase()
  return types
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((pattern) => pattern !== '')
    .some((pattern) => {
      const [before, after] = pattern.split('*', 2)
      return after === undefined ? type === pattern : type.startsWith(before!) && type.endsWith(after)
    })
}
