import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkedOut } from '../../src/runtime/commit.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ID = '0123456789abcdef0123456789abcdef01234567'

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await temporaryFolder()
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(folder, path, '..'), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  return folder
}

describe('the commit that is checked out', () => {
  it.each([
    ['a branch', { '.git/HEAD': 'ref: refs/heads/main\n', '.git/refs/heads/main': `${ID}\n` }],
    ['a packed branch', { '.git/HEAD': 'ref: refs/heads/main\n', '.git/packed-refs': `# x\n${ID} refs/heads/main\n` }],
    ['no branch', { '.git/HEAD': `${ID}\n` }],
    [
      'a branch of a further worktree',
      {
        '.git': 'gitdir: main/worktrees/w\n',
        'main/worktrees/w/HEAD': 'ref: refs/heads/w\n',
        'main/worktrees/w/commondir': '../..\n',
        'main/refs/heads/w': `${ID}\n`,
      },
    ],
  ])('is that of %s', async (_, files) => {
    expect(checkedOut(await folderWith(files))).toBe('012345678')
  })

  it.each([
    ['no Git', {}],
    ['a branch without commits', { '.git/HEAD': 'ref: refs/heads/main\n' }],
    ['something else', { '.git/HEAD': 'x' }],
  ])('is not known of %s', async (_, files) => {
    expect(checkedOut(await folderWith(files))).toBeUndefined()
  })
})
