// A file as it looks: text, a table, a picture, a notebook, a page. All of it came out of a sandbox: a page shows in the
// frame of outputs, in which nothing of it runs, a PDF in one of its own, and the rest is text and pictures.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Copied, later, Problem, useAct, useAnswer } from "./answers";
import { ask, read, type Execution, type Output, type Session } from "./api";
import { Code } from "./code";
import type { HistoryProps } from "./history";
import { addressOf, Frame, join, Outputs, Terminal } from "./outputs";
import { Paging } from "./paging";
import { size } from "./time";
import { nameOf, type Entry } from "./tree";

const TEXT_BYTES = 200_000;
const TABLE_BYTES = 5_000_000;
const WHOLE_BYTES = 20_000_000;
const ROWS = 200;
const MOST_COLUMNS = 100;
const MOST_CELLS = 300;
/** As many as the frame of PDFs lays out. */
const MOST_PAGES = 500;
const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml" };

type Kind = "table" | "parquet" | "picture" | "notebook" | "page" | "pdf" | "text";

function kindOf(name: string): Kind {
  const suffix = name.slice(name.lastIndexOf(".") + 1).toLowerCase();
  if (suffix === "csv" || suffix === "tsv") return "table";
  if (suffix === "parquet" || suffix === "pq") return "parquet";
  if (suffix in PICTURES) return "picture";
  if (suffix === "ipynb") return "notebook";
  if (suffix === "html" || suffix === "htm") return "page";
  if (suffix === "pdf") return "pdf";
  return "text";
}

const History = later<HistoryProps>(async () => (await import("./history")).History);
const Parquet = later<{ address: string; change: string }>(async () => (await import("./parquet")).Parquet);

export interface PreviewProps {
  entry: Entry; address: string; session: Session; executions: Execution[]; earlier: number; onEarlier: () => void; may: boolean; onSave: () => void; onClose: () => void;
}

export function Preview({ entry, address, session, executions, earlier, onEarlier, may, onSave, onClose }: PreviewProps) {
  const name = nameOf(entry.path);
  const kind = kindOf(name);
  const most = kind === "text" ? TEXT_BYTES : kind === "table" ? TABLE_BYTES : WHOLE_BYTES;
  const { found, problem, again } = useAnswer(async (signal) =>
    (entry.size === 0 || kind === "parquet" ? { content: new Uint8Array(), whole: true } : await read(address, most, signal)), [address, entry.modified_at]);
  const [link, setLink] = useState("");
  const [past, setPast] = useState(false);
  const { doing, failed, act } = useAct();
  const makeLink = () => act(async () => setLink((await ask<{ url: string }>("POST", `/v1/workspaces/${session.workspace_id}/links`, { path: entry.path })).url));
  return (
    <>
      <div class="bar">
        <button type="button" class="quiet" onClick={onClose} aria-label="All files">←</button>
        <h2>{name}</h2>
        <span class="hint">{size(entry.size)}</span>
        <span class="grow" />
        <button type="button" aria-pressed={past} onClick={() => setPast(!past)}>History</button>
        {may && <button type="button" disabled={doing} onClick={makeLink} title="A link straight to the file in the store, for an hour">Link</button>}
        <button type="button" onClick={onSave}>Download</button>
      </div>
      <Problem text={problem} again={again} />
      <Problem text={failed} />
      {link && <Copied label="Whoever has it can read the file for an hour" text={link} />}
      <div class="preview-body" tabIndex={0} role="group" aria-label={`${past ? "History" : "Preview"} of ${name}`}>
        {past ? <History path={entry.path} address={address} session={session.id} executions={executions} earlier={earlier} onEarlier={onEarlier} /> : kind === "parquet" && entry.size > 0 ? <Parquet address={address} change={entry.modified_at} /> : found && <Body kind={kind} name={name} content={found.content} whole={found.whole} />}
      </div>
    </>
  );
}

function Body({ kind, name, content, whole }: { kind: Kind; name: string; content: Uint8Array<ArrayBuffer>; whole: boolean }) {
  const text = useMemo(() => (kind === "picture" || kind === "pdf" ? null : decode(content, whole)), [content]);
  if (content.length === 0) return <p class="hint">The file is empty.</p>;
  if (kind === "picture") return whole ? <Picture name={name} content={content} /> : <TooLarge />;
  if (kind === "pdf") return whole ? <Pdf content={content} /> : <TooLarge />;
  if (text === null) return <p class="hint">This is not text. Download it to look at it.</p>;
  if (kind === "table") return <Table text={text} whole={whole} tabs={name.toLowerCase().endsWith(".tsv")} />;
  if (kind === "text") return <><Terminal text={text} />{!whole && <p class="hint">Only its first {size(content.length)} show.</p>}</>;
  if (!whole) return <TooLarge />;
  return kind === "page" ? <Frame kind="output" given={{ html: text }} /> : <Notebook text={text} />;
}

function TooLarge() {
  return <p class="hint">It is larger than {size(WHOLE_BYTES)}. Download it to look at it.</p>;
}

/** Text, or null of what is none; a part may end within a character. */
function decode(content: Uint8Array, whole: boolean): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content, { stream: !whole });
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

function Picture({ name, content }: { name: string; content: Uint8Array<ArrayBuffer> }) {
  const [address, setAddress] = useState("");
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const type = PICTURES[name.slice(name.lastIndexOf(".") + 1).toLowerCase()];
    const made = URL.createObjectURL(new Blob([content], { type }));
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [content]);
  if (broken) return <p class="hint">It could not be shown as a picture.</p>;
  return address ? <img class="picture" alt={name} src={address} onError={() => setBroken(true)} /> : null;
}

const PDF_PROBLEMS: Record<string, string> = { password: "It needs a password. Download it to look at it.", broken: "It could not be read as a PDF." };

/** In a document of an origin of its own, as HTML is. What that says is taken as numbers and known words alone. */
function Pdf({ content }: { content: Uint8Array<ArrayBuffer> }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [pages, setPages] = useState(0);
  const [problem, setProblem] = useState("");
  useLayoutEffect(() => {
    const hear = ({ source, data }: MessageEvent) => {
      if (source === null || source !== frame.current?.contentWindow) return;
      if (data?.ready === true) frame.current.contentWindow.postMessage({ pdf: content.slice().buffer }, "*");
      if (Number(data?.pages) > 0) setPages(Number(data.pages));
      if (typeof data?.problem === "string") setProblem(PDF_PROBLEMS[data.problem] ?? PDF_PROBLEMS["broken"]!);
    };
    addEventListener("message", hear);
    return () => removeEventListener("message", hear);
  }, [content]);
  if (problem) return <p class="hint">{problem}</p>;
  return (
    <>
      <p class="hint" role="status">{pages === 0 ? "Loading" : `${pages.toLocaleString()} ${pages === 1 ? "page" : "pages"}`}{pages > MOST_PAGES && `, the first ${MOST_PAGES} show`}</p>
      <iframe ref={frame} class="frame pdf" title="Pages of the PDF" sandbox="allow-scripts" src={addressOf("pdf")} />
    </>
  );
}

/** Fields of lines as RFC 4180 has them; quotes may hold separators and line ends. */
function parseTable(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  while (at < text.length) {
    let field = "";
    if (text[at] === '"') {
      for (at += 1; at < text.length;) {
        const quote = text.indexOf('"', at);
        const end = quote < 0 ? text.length : quote;
        field += text.slice(at, end);
        at = end + 1;
        if (text[at] !== '"') break;
        field += '"';
        at += 1;
      }
    }
    let end = at;
    while (end < text.length && text[end] !== separator && text[end] !== "\n") end += 1;
    row.push(field + text.slice(at, end).replace(/\r$/, ""));
    at = end + 1;
    if (text[end] !== separator) { rows.push(row); row = []; } else if (at >= text.length) { row.push(""); rows.push(row); row = []; }
  }
  return rows;
}

function Table({ text, whole, tabs }: { text: string; whole: boolean; tabs: boolean }) {
  const [page, setPage] = useState(0);
  const [head, ...rows] = useMemo(() => {
    const first = text.slice(0, text.indexOf("\n") + 1 || undefined);
    const separator = tabs ? "\t" : first.split(";").length > first.split(",").length ? ";" : ",";
    // The last line of a part is cut somewhere.
    const found = parseTable(text.replace(/^\ufeff/, ""), separator);
    return whole ? found : found.slice(0, -1);
  }, [text]);
  if (!head) return <Terminal text={text} />;
  const columns = head.slice(0, MOST_COLUMNS);
  const numeric = columns.map((_, at) => rows.length > 0 && rows.slice(0, 1000).every((row) => !row[at] || !Number.isNaN(Number(row[at]))));
  const from = page * ROWS;
  return (
    <>
      <Paging from={from} shown={Math.min(ROWS, rows.length - from)} of={rows.length} more={!whole} onPage={(step) => setPage(page + step)}>
        {head.length > MOST_COLUMNS && `, the first ${MOST_COLUMNS} of ${head.length} columns`}
      </Paging>
      <table class="list">
        <thead><tr><th scope="col" class="number">Row</th>{columns.map((each, at) => <th scope="col" key={at} class={numeric[at] ? "number" : ""}>{each}</th>)}</tr></thead>
        <tbody>
          {rows.slice(from, from + ROWS).map((row, at) => (
            <tr key={from + at}><th scope="row" class="number">{(from + at + 1).toLocaleString()}</th>{columns.map((_, column) => <td key={column} class={numeric[column] ? "number" : ""}>{row[column] ?? ""}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

interface NotebookCell { cell_type?: unknown; source?: unknown; outputs?: unknown; execution_count?: unknown }

function Notebook({ text }: { text: string }) {
  const [cells, language] = useMemo((): [NotebookCell[] | null, string] => {
    try {
      const { cells: found, metadata } = JSON.parse(text);
      const named: unknown = metadata?.kernelspec?.language ?? metadata?.language_info?.name ?? "python";
      return [Array.isArray(found) ? found.filter((each) => each !== null && typeof each === "object") : null, String(named)];
    } catch {
      return [null, ""];
    }
  }, [text]);
  if (cells === null) return <><p class="hint">It could not be read as a notebook.</p><Terminal text={text} /></>;
  return (
    <>
      {cells.slice(0, MOST_CELLS).map((cell, at) => (
        <article key={at} aria-label={`Cell ${at + 1}`}>
          {cell.cell_type === "code" ? <Code of={{ code: textOf(cell.source), language, kind: "code" }} /> : <Frame kind="prose" given={{ text: textOf(cell.source) }} />}
          <div class="outputs"><Outputs outputs={outputsOf(cell)} /></div>
        </article>
      ))}
      {cells.length > MOST_CELLS && <p class="hint">And {(cells.length - MOST_CELLS).toLocaleString()} more cells.</p>}
    </>
  );
}

function isText(value: unknown): value is string | string[] {
  return typeof value === "string" || (Array.isArray(value) && value.every((each) => typeof each === "string"));
}

function textOf(value: unknown): string {
  return isText(value) ? join(value) : "";
}

/** Anybody can have written the file: what is not as a notebook's outputs are is left out. */
function outputsOf(cell: NotebookCell): Output[] {
  if (!Array.isArray(cell.outputs)) return [];
  return (cell.outputs as Record<string, any>[]).flatMap((each): Output[] => {
    if (each === null || typeof each !== "object") return [];
    if (each["output_type"] === "stream") return [{ output_type: "stream", name: textOf(each["name"]), text: textOf(each["text"]) }];
    if (each["output_type"] === "error") {
      return [{ output_type: "error", ename: textOf(each["ename"]), evalue: textOf(each["evalue"]), traceback: isText(each["traceback"]) ? [join(each["traceback"])] : [] }];
    }
    if (each["data"] === null || typeof each["data"] !== "object") return [];
    const data = Object.fromEntries(Object.entries(each["data"] as Record<string, unknown>).filter(([type, value]) => isText(value) || type.endsWith("json")));
    return [{ output_type: "display_data", data }];
  });
}
