/** Given to an index process that will call functions: it starts a sandbox process before anything else. */
export const WITH_SANDBOX = '--with-sandbox'
