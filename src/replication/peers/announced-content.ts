/** Whether contents of attachments are those that the source announced. */

/** A digest of another kind than MD5 says nothing here. */
export function isAsAnnounced(digest: string | undefined, md5: string): boolean {
  return digest === undefined || !digest.startsWith(MD5) || digest === MD5 + md5
}

const MD5 = 'md5-'
