// The files of a session, one directory at a time: look, preview, download, upload by drag or by a button. Of a session
// that is not live they are those of its workspace in the store.

import { useEffect, useRef, useState } from "preact/hooks";
import { later } from "./answers";
import { ask, download, upload, type ChangedFile, type Page, type Session } from "./api";
import type { PreviewProps } from "./preview";
import { size, useNow, When } from "./time";

const Preview = later<PreviewProps>(async () => (await import("./preview")).Preview);

export interface Entry { path: string; kind: "file" | "directory" | "link" | "other"; size: number; modified_at: string }

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

interface Upload { name: string; sent: number; size: number }

interface FilesProps { session: Session; ended: number; may: boolean; opened: ChangedFile | null }

/** `opened` is a file that somebody has chosen elsewhere on the page. */
export function Files({ session, ended, may, opened }: FilesProps) {
  const [directory, setDirectory] = useState("");
  const [page, setPage] = useState<Page<Entry> | null>(null);
  const [problem, setProblem] = useState("");
  const [doing, setDoing] = useState("");
  const [sending, setSending] = useState<Upload | null>(null);
  const [over, setOver] = useState(false);
  const [shown, setShown] = useState<Entry | null>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const now = useNow(15);
  const live = session.status === "READY";
  const base = live ? `/v1/sessions/${session.id}/files` : `/v1/workspaces/${session.workspace_id}/files`;

  async function load(signal?: AbortSignal): Promise<void> {
    try {
      setPage(await ask("GET", `${base}?path=${encodeURIComponent(directory)}&limit=1000`, undefined, signal));
      setProblem("");
    } catch (error) {
      if (!signal?.aborted) setProblem((error as Error).message);
    }
  }
  useEffect(() => {
    const stop = new AbortController();
    void load(stop.signal);
    return () => stop.abort();
  }, [base, directory, ended]);

  useEffect(() => {
    if (!opened) return;
    setDirectory(opened.path.split("/").slice(0, -1).join("/"));
    setShown({ path: opened.path, kind: "file", size: opened.size ?? 1, modified_at: "" });
  }, [opened]);

  const archive = () => work("Downloading all files", () => download(
    `/v1/workspaces/${session.workspace_id}/archive`, `${session.name}.zip`));
  const address = (path: string) => `${base}/${path.split("/").map(encodeURIComponent).join("/")}`;

  async function work(what: string, act: () => Promise<void>): Promise<void> {
    setDoing(what);
    setProblem("");
    try { await act(); } catch (error) { setProblem((error as Error).message); }
    setDoing("");
    setSending(null);
  }

  const save = (entry: Entry) => work(`Downloading ${nameOf(entry.path)}`, () => download(address(entry.path), nameOf(entry.path)));
  const put = (files: FileList | null | undefined) => work("", async () => {
    for (const each of [...files ?? []]) {
      const of = { name: each.name, size: each.size };
      setSending({ ...of, sent: 0 });
      await upload(address(directory ? `${directory}/${each.name}` : each.name), each, (sent) => setSending({ ...of, sent }));
    }
    await load();
  });

  const classes = ["panel", over && "over", shown && "broad"].filter(Boolean).join(" ");
  return (
    <section class={classes} aria-label="Files"
      onDragOver={(event) => { if (may) { event.preventDefault(); setOver(true); } }} onDragLeave={() => setOver(false)}
      onDrop={(event) => { event.preventDefault(); setOver(false); if (may) void put(event.dataTransfer?.files); }}>
      {shown ? <Preview key={shown.path} entry={shown} address={address(shown.path)} workspace={session.workspace_id} may={may}
        onSave={() => save(shown)} onClose={() => setShown(null)} /> : (
        <>
          <div class="bar">
            <h2>{directory || "Files"}</h2>
            <span class="grow" />
            <button type="button" onClick={archive} title="All files that are in the store, as a zip archive">Archive</button>
            {may && <button type="button" onClick={() => chooser.current?.click()}>Upload</button>}
            <input ref={chooser} type="file" multiple hidden aria-label="Files to upload"
              onChange={(event) => { void put(event.currentTarget.files).finally(() => { if (chooser.current) chooser.current.value = ""; }); }} />
          </div>
          {!live && <p class="hint">As they are in the store.</p>}
        </>
      )}
      {problem && <p role="alert" class="problem">{problem} <button type="button" onClick={() => load()}>Try again</button></p>}
      <p class="hint" role="status">{doing}{sending && `Uploading ${sending.name}`}</p>
      {sending && <p class="hint"><progress max={sending.size || 1} value={sending.sent} aria-label={`Upload of ${sending.name}`} /> {size(sending.sent)} of {size(sending.size)}</p>}
      {!shown && page && <Listing page={page} directory={directory} may={may} now={now} onDirectory={setDirectory} onShow={setShown} />}
    </section>
  );
}

interface ListingProps {
  page: Page<Entry>; directory: string; may: boolean; now: number;
  onDirectory: (path: string) => void; onShow: (entry: Entry) => void;
}

function Listing({ page, directory, may, now, onDirectory, onShow }: ListingProps) {
  const entries = [...page.items].sort((a, b) =>
    Number(b.kind === "directory") - Number(a.kind === "directory") || a.path.localeCompare(b.path));
  const above = directory.split("/").slice(0, -1).join("/");
  return (
    <>
      {entries.length === 0 && <p class="empty">No files here.{may && " Drop some to upload them."}</p>}
      {(entries.length > 0 || directory) && <div class="scroll" tabIndex={0} role="group" aria-label="Entries">
        <table class="list">
          <thead><tr><th scope="col">Name</th><th scope="col" class="number">Size</th><th scope="col">Changed</th></tr></thead>
          <tbody>
            {directory && <tr><th scope="row"><button type="button" class="quiet" onClick={() => onDirectory(above)}>.. (up)</button></th><td /><td /></tr>}
            {entries.map((each) => (
              <tr key={each.path}>
                <th scope="row">
                  {each.kind === "directory" ? <button type="button" class="quiet" onClick={() => onDirectory(each.path)}>{nameOf(each.path)}/</button>
                    : each.kind === "file" ? <button type="button" class="quiet" onClick={() => onShow(each)}>{nameOf(each.path)}</button>
                      : <span title={each.kind}>{nameOf(each.path)}</span>}
                </th>
                <td class="number">{each.kind === "file" ? size(each.size) : ""}</td>
                <td><When time={each.modified_at} now={now} /></td>
              </tr>
            ))}
          </tbody>
        </table>
        {page.next_cursor && <p class="hint">There are more entries than this page shows; <code>sandcell files ls</code> lists all.</p>}
      </div>}
    </>
  );
}
