// The files of a directory as a tree: a folder is asked for when it is opened, and a large one a page at a time.

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./answers";
import { ask, type Failure, type Page } from "./api";
import { size, useNow, When } from "./time";

const PAGE = 500;

export interface Entry { path: string; kind: "file" | "directory" | "link" | "other"; size: number; modified_at: string }
/** A file of this computer, and its path below the folder into which it is put. */
export interface Put { path: string; file: File }

/** What was dropped, folders with all that is in them. What there is is asked for before the event is over. */
export async function readDropped({ items, files }: DataTransfer): Promise<Put[]> {
  const entries = [...items].flatMap((each) => each.webkitGetAsEntry?.() ?? []);
  if (!entries.some((each) => each.isDirectory)) return [...files].map((file) => ({ path: file.name, file }));
  const found: Put[] = [];
  for (const each of entries) await readEntry(each, each.name, found);
  return found;
}

async function readEntry(entry: FileSystemEntry, path: string, found: Put[]): Promise<void> {
  if (entry.isFile) {
    found.push({ path, file: await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail)) });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) { // a hundred at a time, until there is none left
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
    if (some.length === 0) return;
    for (const each of some) await readEntry(each, `${path}/${each.name}`, found);
  }
}

interface Folder { items: Entry[]; next: string | null; problem: string }

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

export function folderOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

/** As many entries of a folder as were there before, at least a page; or those behind what is known. */
async function list(base: string, path: string, known: Folder | undefined, more: boolean, signal: AbortSignal): Promise<Folder> {
  const items: Entry[] = more ? [...known!.items] : [];
  let next: string | null = more ? known!.next : null;
  const wanted = more ? items.length + 1 : known?.items.length ?? 0;
  do {
    const cursor = next === null ? "" : `&cursor=${encodeURIComponent(next)}`;
    const page: Page<Entry> = await ask("GET", `${base}?path=${encodeURIComponent(path)}&limit=${PAGE}${cursor}`, undefined, signal);
    items.push(...page.items);
    next = page.next_cursor;
  } while (next !== null && items.length < wanted);
  return { items, next, problem: "" };
}

interface Folders { folders: ReadonlyMap<string, Folder>; open: ReadonlySet<string>; toggle: (path: string, on: boolean) => void; more: (path: string) => void; refresh: () => void }

/** What is known of the folders that are open; all of them are asked for again when `change` is another. */
function useFolders(base: string, change: unknown): Folders {
  const [folders, setFolders] = useState<ReadonlyMap<string, Folder>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set([""]));
  const stop = useRef(new AbortController());
  async function load(path: string, more = false): Promise<void> {
    const { signal } = stop.current;
    let found: Folder;
    try {
      found = await list(base, path, folders.get(path), more, signal);
    } catch (error) {
      if (signal.aborted) return;
      // A folder that is gone is so by its parent, too.
      if (path && (error as Failure).status === 404) { toggle(path, false); return; }
      found = { items: [], next: null, ...folders.get(path), problem: (error as Error).message };
    }
    if (!signal.aborted) setFolders((known) => new Map(known).set(path, found));
  }
  function toggle(path: string, on: boolean): void {
    setOpen((known) => { const opened = new Set(known); if (on) opened.add(path); else opened.delete(path); return opened; });
    if (on) void load(path);
  }
  const refresh = () => { for (const path of open) void load(path); };
  useEffect(() => {
    stop.current = new AbortController();
    refresh();
    return () => stop.current.abort();
  }, [base, change]);
  return { folders, open, toggle, more: (path) => void load(path, true), refresh };
}

interface TreeProps {
  base: string; change: unknown; may: boolean;
  onShow: (entry: Entry) => void; onFolder: (path: string) => void; onDropped: (files: Promise<Put[]>, folder: string) => void;
}

type Row = { entry: Entry; level: number } | { folder: string; level: number };

/** Arrows up and down go from name to name, right and left open and close a folder. */
function move(event: KeyboardEvent): void {
  const names = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLButtonElement>("th button")];
  const at = names.indexOf(event.target as HTMLButtonElement);
  if (at < 0) return;
  const own = names[at]!;
  const opened = own.getAttribute("aria-expanded");
  if (event.key === "ArrowDown") names[at + 1]?.focus();
  else if (event.key === "ArrowUp") names[at - 1]?.focus();
  else if ((event.key === "ArrowRight" && opened === "false") || (event.key === "ArrowLeft" && opened === "true")) own.click();
  else if (event.key === "ArrowLeft") names.slice(0, at).reverse().find((each) => Number(each.dataset["level"]) < Number(own.dataset["level"]))?.focus();
  else return;
  event.preventDefault();
}

export function Tree({ base, change, may, onShow, onFolder, onDropped }: TreeProps) {
  const { folders, open, toggle, more, refresh } = useFolders(base, change);
  const now = useNow(15);
  const rows: Row[] = [];
  const add = (path: string, level: number) => {
    const folder = folders.get(path);
    for (const entry of [...folder?.items ?? []].sort((a, b) => Number(b.kind === "directory") - Number(a.kind === "directory") || a.path.localeCompare(b.path))) {
      rows.push({ entry, level });
      if (entry.kind === "directory" && open.has(entry.path)) add(entry.path, level + 1);
    }
    if (path && (!folder || folder.next !== null || folder.problem || folder.items.length === 0)) rows.push({ folder: path, level });
  };
  add("", 0);
  const top = folders.get("");
  const drop = (folder: string) => ({
    onDrop: (event: DragEvent) => { if (may && event.dataTransfer?.files.length) { event.preventDefault(); event.stopPropagation(); onDropped(readDropped(event.dataTransfer), folder); } },
  });
  return (
    <>
      <Problem text={top?.problem ?? ""} again={refresh} />
      {top && !top.problem && rows.length === 0 && <p class="empty">No files here.{may && " Drop some to upload them."}</p>}
      {rows.length > 0 && <div class="scroll" tabIndex={0} role="group" aria-label="Entries">
        <table class="list tree" onKeyDown={move}>
          <thead><tr><th scope="col">Name</th><th scope="col" class="number">Size</th><th scope="col">Changed</th></tr></thead>
          <tbody>
            {rows.map((row) => "folder" in row ? (
              <tr key={`${row.folder}/`}><td colSpan={3} style={{ paddingLeft: `${16 + row.level * 16}px` }}><Rest of={folders.get(row.folder)} more={() => more(row.folder)} again={() => toggle(row.folder, true)} /></td></tr>
            ) : (
              <tr key={row.entry.path} {...drop(row.entry.kind === "directory" ? row.entry.path : folderOf(row.entry.path))}>
                <th scope="row" style={{ paddingLeft: `${16 + row.level * 16}px` }}>
                  <Name entry={row.entry} level={row.level} open={open.has(row.entry.path)} onShow={onShow}
                    onToggle={(on) => { toggle(row.entry.path, on); onFolder(on ? row.entry.path : folderOf(row.entry.path)); }} />
                </th>
                <td class="number">{row.entry.kind === "file" ? size(row.entry.size) : ""}</td>
                <td><When time={row.entry.modified_at} now={now} /></td>
              </tr>
            ))}
          </tbody>
        </table>
        {top?.next && <p class="hint"><Rest of={top} more={() => more("")} again={refresh} /></p>}
      </div>}
    </>
  );
}

function Name({ entry, level, open, onShow, onToggle }: { entry: Entry; level: number; open: boolean; onShow: (entry: Entry) => void; onToggle: (on: boolean) => void }) {
  const name = nameOf(entry.path);
  if (entry.kind === "directory") return <button type="button" class="quiet" data-level={level} aria-expanded={open} onClick={() => onToggle(!open)}>{name}/</button>;
  if (entry.kind === "file") return <button type="button" class="quiet" data-level={level} onClick={() => onShow(entry)}>{name}</button>;
  return <span title={entry.kind}>{name}</span>;
}

/** What is below the entries of a folder that show. */
function Rest({ of, more, again }: { of: Folder | undefined; more: () => void; again: () => void }) {
  if (!of) return <span class="kind" role="status">Loading</span>;
  if (of.problem) return <span role="alert" class="bad">{of.problem} <button type="button" onClick={again}>Try again</button></span>;
  if (of.next !== null) return <><span class="kind">The first {of.items.length.toLocaleString()} show.</span> <button type="button" onClick={more}>More</button></>;
  return <span class="kind">Empty</span>;
}
