// The files of a live session, one directory at a time: look, download, upload by drag or by a button.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, download, upload, type Page } from "./api";
import { size, useNow, When } from "./time";

interface Entry { path: string; kind: "file" | "directory" | "link" | "other"; size: number; modified_at: string }

export function Files({ id, ended, may }: { id: string; ended: number; may: boolean }) {
  const [directory, setDirectory] = useState("");
  const [page, setPage] = useState<Page<Entry> | null>(null);
  const [problem, setProblem] = useState("");
  const [doing, setDoing] = useState("");
  const [over, setOver] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const now = useNow(15);
  const base = `/v1/sessions/${id}/files`;

  async function load(signal?: AbortSignal): Promise<void> {
    try {
      setPage(await ask("GET", `${base}?path=${encodeURIComponent(directory)}&limit=1000`, undefined, signal));
      setProblem("");
    } catch (error) {
      if ((error as Error).name !== "AbortError") setProblem((error as Error).message);
    }
  }
  useEffect(() => {
    const stop = new AbortController();
    void load(stop.signal);
    return () => stop.abort();
  }, [id, directory, ended]);

  const address = (path: string) => `${base}/${path.split("/").map(encodeURIComponent).join("/")}`;

  async function work(what: string, act: () => Promise<void>): Promise<void> {
    setDoing(what);
    setProblem("");
    try { await act(); } catch (error) { setProblem((error as Error).message); }
    setDoing("");
  }

  const save = (entry: Entry) => work(`Downloading ${nameOf(entry.path)}`, () => download(address(entry.path), nameOf(entry.path)));
  const put = (files: FileList | null | undefined) => work("Uploading", async () => {
    for (const each of files ?? []) {
      setDoing(`Uploading ${each.name}`);
      await upload(address(directory ? `${directory}/${each.name}` : each.name), each);
    }
    await load();
  });

  const entries = [...(page?.items ?? [])].sort((a, b) =>
    Number(b.kind === "directory") - Number(a.kind === "directory") || a.path.localeCompare(b.path));
  const above = directory.split("/").slice(0, -1).join("/");
  return (
    <section class={over ? "panel over" : "panel"} aria-label="Files"
      onDragOver={(event) => { if (may) { event.preventDefault(); setOver(true); } }} onDragLeave={() => setOver(false)}
      onDrop={(event) => { event.preventDefault(); setOver(false); if (may) void put(event.dataTransfer?.files); }}>
      <div class="bar">
        <h2>{directory || "Files"}</h2>
        <span class="grow" />
        {may && <button type="button" onClick={() => chooser.current?.click()}>Upload</button>}
        <input ref={chooser} type="file" multiple hidden aria-label="Files to upload"
          onChange={(event) => { void put(event.currentTarget.files); event.currentTarget.value = ""; }} />
      </div>
      {problem && <p role="alert" class="problem">{problem}</p>}
      <p class="hint" role="status">{doing}</p>
      {page && entries.length === 0 && <p class="empty">No files here.{may && " Drop some to upload them."}</p>}
      {(entries.length > 0 || directory) && <div class="scroll" tabIndex={0} role="group" aria-label="Entries">
        <table class="list">
          <thead><tr><th scope="col">Name</th><th scope="col" class="number">Size</th><th scope="col">Changed</th></tr></thead>
          <tbody>
            {directory && <tr><th scope="row"><button type="button" class="quiet" onClick={() => setDirectory(above)}>.. (up)</button></th><td /><td /></tr>}
            {entries.map((each) => (
              <tr key={each.path}>
                <th scope="row">
                  {each.kind === "directory" ? <button type="button" class="quiet" onClick={() => setDirectory(each.path)}>{nameOf(each.path)}/</button>
                    : each.kind === "file" ? <button type="button" class="quiet" onClick={() => save(each)} title="Download">{nameOf(each.path)}</button>
                      : <span title={each.kind}>{nameOf(each.path)}</span>}
                </th>
                <td class="number">{each.kind === "file" ? size(each.size) : ""}</td>
                <td><When time={each.modified_at} now={now} /></td>
              </tr>
            ))}
          </tbody>
        </table>
        {page?.next_cursor && <p class="hint">There are more entries than this page shows; <code>sandcell files ls</code> lists all.</p>}
      </div>}
    </section>
  );
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
