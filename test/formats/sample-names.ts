/** The databases of the sample folders. */
export const LONG_NAME = `long-${'x'.repeat(230)}`
export const NAMES = ['sample', 'parted', LONG_NAME]
export const VIEW = 'sample/_design/views/_view/sum?group=true'
