// The files of a session: a tree, previews, download, upload by drag or by a button. They are those in the sandbox while there
// is one, or those of the workspace in the store.

import { useEffect, useRef, useState } from "preact/hooks";
import { later } from "./answers";
import { download, upload, type ChangedFile, type Execution, type Session } from "./api";
import type { PreviewProps } from "./preview";
import { size, useNow, When } from "./time";
import { folderOf, nameOf, readDropped, Tree, type Entry, type Put } from "./tree";

const Preview = later<PreviewProps>(async () => (await import("./preview")).Preview);

/** Something on its way: how much of how much has gone, which of an archive nobody knows before. */
interface Transfer { what: string; done: number; size: number | null }

interface FilesProps { session: Session; executions: Execution[]; earlier: number; onEarlier: () => void; ended: number; may: boolean; opened: ChangedFile | null }

/** `opened` is a file that somebody has chosen elsewhere on the page. */
export function Files({ session, executions, earlier, onEarlier, ended, may: allowed, opened }: FilesProps) {
  const [stored, setStored] = useState(false);
  const [into, setInto] = useState("");
  const [changes, setChanges] = useState(0);
  const [problem, setProblem] = useState("");
  const [moving, setMoving] = useState<Transfer | null>(null);
  const [over, setOver] = useState(false);
  const [shown, setShown] = useState<Entry | null>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const stop = useRef<AbortController | null>(null);
  const live = session.status === "READY" && !stored;
  const may = allowed && live;
  const base = live ? `/v1/sessions/${session.id}/files` : `/v1/workspaces/${session.workspace_id}/files`;
  const address = (path: string) => `${base}/${path.split("/").map(encodeURIComponent).join("/")}`;

  useEffect(() => {
    if (!opened) return;
    setStored(false);
    setInto(folderOf(opened.path));
    setShown({ path: opened.path, kind: "file", size: opened.size ?? 1, modified_at: "" });
  }, [opened]);

  async function work(act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (stop.current) {
      setProblem("A transfer is under way: wait for its end, or cancel it, then try again.");
      return;
    }
    const own = new AbortController();
    stop.current = own;
    setProblem("");
    let failed = "";
    try { await act(own.signal); } catch (error) { if (!own.signal.aborted) failed = (error as Error).message; }
    stop.current = null;
    setProblem(failed); // with what was said meanwhile of another transfer
    setMoving(null);
  }

  const fetch = (path: string, name: string, most: number | null) => work(async (signal) => {
    setMoving({ what: `Downloading ${name}`, done: 0, size: most });
    await download(path, name, signal, (done, whole) => setMoving({ what: `Downloading ${name}`, done, size: whole ?? most }));
  });
  const save = (entry: Entry) => fetch(address(entry.path), nameOf(entry.path), null);
  const archive = () => fetch(`/v1/workspaces/${session.workspace_id}/archive`, `${session.name}.zip`, null);
  const put = (files: Put[] | Promise<Put[]>, folder: string) => work(async (signal) => {
    try {
      for (const { path, file } of await files) {
        const of = { what: `Uploading ${path}${folder && ` into ${folder}/`}`, size: file.size };
        setMoving({ ...of, done: 0 });
        await upload(address(folder ? `${folder}/${path}` : path), file, (done) => setMoving({ ...of, done }), signal);
      }
    } finally {
      setChanges((count) => count + 1);
    }
  });

  const classes = ["panel", over && "over", shown && "broad"].filter(Boolean).join(" ");
  return (
    <section class={classes} aria-label="Files"
      onDragOver={(event) => { if (may) { event.preventDefault(); setOver(true); } }} onDragLeave={() => setOver(false)} onDropCapture={() => setOver(false)}
      onDrop={(event) => { event.preventDefault(); if (may && event.dataTransfer) void put(readDropped(event.dataTransfer), into); }}>
      {shown && <Preview key={`${stored} ${shown.path}`} entry={shown} address={address(shown.path)} session={session} executions={executions} earlier={earlier} onEarlier={onEarlier} may={allowed}
        onSave={() => save(shown)} onClose={() => setShown(null)} />}
      <div class="column" hidden={!!shown}>
        <div class="bar">
          <h2>Files</h2>
          {session.status === "READY" && <Place stored={stored} onChange={setStored} />}
          <span class="grow" />
          <button type="button" onClick={() => setChanges(changes + 1)}>Refresh</button>
          <button type="button" onClick={archive} title="All files that are in the store, as a zip archive">Archive</button>
          {may && <button type="button" title={`Into ${into ? `${into}/, the folder that was opened last` : "the workspace"}`} onClick={() => chooser.current?.click()}>Upload</button>}
          <input ref={chooser} type="file" multiple hidden aria-label="Files to upload"
            onChange={(event) => { void put([...event.currentTarget.files ?? []].map((file) => ({ path: file.name, file })), into).finally(() => { if (chooser.current) chooser.current.value = ""; }); }} />
        </div>
        {!live && <InStore session={session} />}
      </div>
      {problem && <p role="alert" class="problem">{problem}</p>}
      <p class="hidden" role="status">{moving?.what}</p>
      {moving && <Progress of={moving} onCancel={() => stop.current?.abort()} />}
      <div class="column" hidden={!!shown}>
        <Tree key={base} base={base} change={`${ended} ${changes}`} may={may} onShow={setShown} onFolder={setInto} onDropped={(files, folder) => { setInto(folder); void put(files, folder); }} />
      </div>
    </section>
  );
}

function Place({ stored, onChange }: { stored: boolean; onChange: (stored: boolean) => void }) {
  return (
    <span class="choice" role="group" aria-label="Whose files">
      <button type="button" aria-pressed={!stored} onClick={() => onChange(false)}>Sandbox</button>
      <button type="button" aria-pressed={stored} onClick={() => onChange(true)}>Store</button>
    </span>
  );
}

function InStore({ session: { status, sync } }: { session: Session }) {
  const now = useNow(5);
  return (
    <p class="hint">As they are in the store{status === "READY" && sync.last_flush_at && <>, last complete <When time={sync.last_flush_at} now={now} /></>}.
      {sync.pending && ` ${sync.pending_files.toLocaleString()} files (${size(sync.pending_bytes)}) are on their way there.`}</p>
  );
}

function Progress({ of: { what, done, size: whole }, onCancel }: { of: Transfer; onCancel: () => void }) {
  return (
    <p class="hint">{what} <progress max={whole || 1} value={whole === null ? undefined : done} aria-label={what} /> {size(done)}{whole !== null && ` of ${size(whole)}`}
      {" "}<button type="button" class="quiet" onClick={onCancel}>Cancel</button></p>
  );
}
