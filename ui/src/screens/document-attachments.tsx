/** The attachments of a document: preview, upload by choosing or dropping files, delete. */
import { useQuery } from '@tanstack/react-query'
import { type DragEvent, useEffect, useId, useState } from 'react'
import {
  attachmentBlob,
  attachmentText,
  attachmentUrl,
  deleteAttachment,
  uploadAttachment,
} from '../api/attachments.ts'
import type { AttachmentStub, LoadedDocument } from '../api/documents.ts'
import { Button } from '../parts/button.tsx'
import { Confirm } from '../parts/dialog.tsx'
import { Bytes, bytesText, Progress } from '../parts/figures.tsx'
import { Icon } from '../parts/icon.tsx'
import { ErrorState, Skeleton } from '../parts/states.tsx'
import { toast, toastError } from '../parts/toast.tsx'

interface AttachmentsTabProperties {
  readonly database: string
  readonly document: LoadedDocument
  onChanged(): void
}

interface Running {
  readonly name: string
  readonly share: number
}

export function AttachmentsTab({ database, document, onChanged }: AttachmentsTabProperties) {
  const { id, rev, attachments } = document
  const [running, setRunning] = useState<Running>()
  const [isOver, setOver] = useState(false)
  const [previewed, setPreviewed] = useState<string>()
  const [deleted, setDeleted] = useState<string>()
  const inputId = useId()

  /** One after the other: each needs the revision that the one before made. */
  const upload = async (files: readonly File[]) => {
    let latest = rev
    try {
      for (const file of files) {
        const onProgress = (share: number) => setRunning({ name: file.name, share })
        onProgress(0)
        latest = (await uploadAttachment({ database, id, rev: latest, file, onProgress })).rev
        toast(`${file.name} attached.`)
      }
    } catch (error) {
      toastError('The file was not attached.', error)
    } finally {
      setRunning(undefined)
      onChanged()
    }
  }
  const onDrop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    void upload([...event.dataTransfer.files])
  }

  return (
    <div className="content">
      <div className="page">
        {attachments.length > 0 && (
          <div className="card">
            {attachments.map((stub) => (
              <div className="attachment" key={stub.name}>
                <div className="attachment-line">
                  <Icon name="file" />
                  <span className="mono cut" title={stub.name}>
                    <bdi>{stub.name}</bdi>
                  </span>
                  <span className="muted cut hide-on-phone">{stub.contentType}</span>
                  <span className="number nowrap">
                    <Bytes value={stub.length} />
                  </span>
                  {kindOf(stub) !== undefined && (
                    <Button
                      kind="quiet"
                      aria-expanded={previewed === stub.name}
                      onClick={() => setPreviewed(previewed === stub.name ? undefined : stub.name)}
                    >
                      Preview
                    </Button>
                  )}
                  <a
                    className="button button-quiet"
                    href={attachmentUrl(database, id, stub.name, rev)}
                    download={stub.name.split('/').at(-1)}
                  >
                    Download
                  </a>
                  <Button
                    kind="quiet"
                    icon="close"
                    aria-label={`Delete ${stub.name}`}
                    onClick={() => setDeleted(stub.name)}
                  />
                </div>
                {previewed === stub.name && <Preview database={database} id={id} rev={rev} stub={stub} />}
              </div>
            ))}
          </div>
        )}
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the button in it does the same. */}
        <div
          className="drop"
          data-over={isOver}
          onDragOver={(event) => {
            event.preventDefault()
            setOver(true)
          }}
          onDragLeave={() => setOver(false)}
          onDrop={onDrop}
        >
          {running ? (
            <>
              <span className="wrap-anywhere" role="status">
                Uploading {running.name}: {Math.round(running.share * 100)} %
              </span>
              <div style={{ width: '100%' }}>
                <Progress value={running.share} label={`Upload of ${running.name}`} />
              </div>
            </>
          ) : (
            <>
              <span>Drop files here, or</span>
              <label className="button button-plain" htmlFor={inputId}>
                Choose files
              </label>
              <input
                id={inputId}
                className="visually-hidden"
                type="file"
                multiple
                onChange={({ target }) => void upload([...(target.files ?? [])])}
              />
            </>
          )}
        </div>
      </div>
      {deleted !== undefined && (
        <Confirm
          title={`Delete ${deleted}?`}
          action="Delete attachment"
          onClose={() => setDeleted(undefined)}
          onConfirm={async () => {
            await deleteAttachment(database, id, deleted, rev)
            toast(`${deleted} deleted.`)
            onChanged()
          }}
        >
          <p>The document gets a new revision without it.</p>
        </Confirm>
      )}
    </div>
  )
}

type PreviewKind = 'image' | 'audio' | 'video' | 'pdf' | 'text'

function kindOf({ contentType }: AttachmentStub): PreviewKind | undefined {
  const type = contentType.toLowerCase()
  if (type.startsWith('image/')) return 'image'
  if (type.startsWith('audio/')) return 'audio'
  if (type.startsWith('video/')) return 'video'
  if (type.startsWith('application/pdf')) return 'pdf'
  return /^text\/|json|xml|javascript|yaml/.test(type) ? 'text' : undefined
}

const TEXT_BYTES = 64 * 1024
const BLOB_LIMIT_BYTES = 50 * 1024 * 1024

interface PreviewProperties {
  readonly database: string
  readonly id: string
  readonly rev: string
  readonly stub: AttachmentStub
}

function Preview({ database, id, rev, stub }: PreviewProperties) {
  const url = attachmentUrl(database, id, stub.name, rev)
  switch (kindOf(stub)) {
    case 'image':
      return <img className="preview" src={url} alt={stub.name} />
    case 'audio':
      // biome-ignore lint/a11y/useMediaCaption: what people attach brings none.
      return <audio className="preview" controls src={url} />
    case 'video':
      // biome-ignore lint/a11y/useMediaCaption: what people attach brings none.
      return <video className="preview" controls src={url} />
    case 'pdf':
      return <PdfPreview database={database} id={id} stub={stub} />
    default:
      return <TextPreview database={database} id={id} stub={stub} />
  }
}

function TextPreview({ database, id, stub }: Omit<PreviewProperties, 'rev'>) {
  const query = useQuery({
    queryKey: ['attachment text', database, id, stub.name, stub.digest],
    queryFn: () => attachmentText(database, id, stub.name, TEXT_BYTES),
  })
  if (query.error) return <ErrorState error={query.error} />
  if (query.data === undefined) return <Skeleton rows={3} />
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: who scrolls by keyboard must be able to get here. */}
      <pre className="code preview" tabIndex={0}>
        {query.data}
      </pre>
      {stub.length > TEXT_BYTES && <p className="muted">The first {bytesText(TEXT_BYTES)} of it.</p>}
    </>
  )
}

function PdfPreview({ database, id, stub }: Omit<PreviewProperties, 'rev'>) {
  const [url, setUrl] = useState<string>()
  const [failure, setFailure] = useState<unknown>()
  const isLarge = stub.length > BLOB_LIMIT_BYTES
  useEffect(() => {
    if (isLarge) return
    let made: string | undefined
    attachmentBlob(database, id, stub.name, 'application/pdf').then((blob) => {
      made = URL.createObjectURL(blob)
      setUrl(made)
    }, setFailure)
    return () => {
      if (made !== undefined) URL.revokeObjectURL(made)
    }
  }, [database, id, stub.name, isLarge])
  if (isLarge) return <p className="muted">Too large for a preview: download it.</p>
  if (failure !== undefined) return <ErrorState error={failure} />
  return url === undefined ? <Skeleton rows={3} /> : <iframe className="preview" src={url} title={stub.name} />
}
