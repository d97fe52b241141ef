// Requests to the REST interface. The browser adds the cookie of who is signed in, and the header here says that this
// page asks: no other page can add it.

/** Where a session began: as another was at `as_of`, after which `cells` of that one's last cells ran again in this one. */
export interface Forked { session: string; cell: number | null; as_of: string; cells: number }
export interface Session {
  id: string; name: string; status: "READY" | "HIBERNATED" | "TERMINATED"; environment: string; generation: number;
  created_at: string; last_activity_at: string; expires_at: string; idle_expires_at: string; hibernates_at: string | null;
  ended: { reason: string; detail: string; at: string } | null;
  usage: { memory_bytes: number; memory_limit_bytes: number; cpu_seconds: number; storage_used_bytes: number;
    storage_limit_bytes: number; executions: number };
  labels: Record<string, string>; agent: string | null; memory: "resident" | "paged_out" | null; workspace_id: string;
  sync: { last_flush_at: string | null; pending: boolean; error: string | null; pending_files: number; pending_bytes: number; retry_at: string | null };
  lease: { holder: string; expires_at: string } | null; from: Forked | null;
}
export type Text = string | string[];
export interface Output {
  output_type: "stream" | "display_data" | "execute_result" | "error";
  name?: string; text?: Text; data?: Record<string, unknown>; display_id?: string;
  ename?: string; evalue?: string; traceback?: string[];
}
/** Of an output that shows a widget: which one, and the state that came with it. */
const WIDGET = "application/vnd.jupyter.widget-view+json";
const WIDGET_STATE = "application/vnd.jupyter.widget-state+json";

export interface Widgets { state: Record<string, { model_name?: unknown; state?: Record<string, unknown> }> }

/** The state of the widgets that an output shows, as far as it came with it. */
export function stateOf({ data }: Output): Widgets["state"] | undefined {
  const found = (data?.[WIDGET_STATE] as Widgets | undefined)?.state;
  return found !== null && typeof found === "object" ? found : undefined;
}

export function viewOf({ data }: Output): string | undefined {
  const id = (data?.[WIDGET] as { model_id?: unknown } | undefined)?.model_id;
  return typeof id === "string" ? id : undefined;
}

/** The same output, whose widget is drawn again as the kernel has it. */
export function showAgain(output: Output): Output {
  const state = stateOf(output);
  return state ? { ...output, data: { ...output.data, [WIDGET_STATE]: { ...(output.data![WIDGET_STATE] as Widgets), state: { ...state } } } } : output;
}

/** An output after values of a widget have changed; the same one where it shows none of that. */
export function moveWidget(output: Output, { model_id: id, state }: { model_id: string; state: Record<string, unknown> }): Output {
  const known = stateOf(output);
  const model = known && Object.hasOwn(known, id) ? known[id] : undefined;
  if (!model) return output;
  const models = { ...known, [id]: { ...model, state: { ...model.state, ...state } } };
  return { ...output, data: { ...output.data, [WIDGET_STATE]: { ...(output.data![WIDGET_STATE] as object), state: models } } };
}

export interface Execution {
  /** A shell command's code is its line; one in the background ends at once, and has a task. */
  kind: "code" | "command"; exit_code: number | null; task: string | null;
  id: string; session_id: string; status: "queued" | "running" | "ok" | "error" | "timeout" | "interrupted" | "died" | "rejected";
  language: string; code: string; generation: number; queued_at: string; started_at: string | null;
  ended_at: string | null; execution_count: number | null; outputs: Output[]; late: Output[];
  error: { name: string; value: string; traceback: string[] } | null;
  death: { cause: string; detail: string; memory_peak_bytes: number | null } | null; why: string | null;
  truncated: { stdout: number; stderr: number; outputs: number };
  memory: { detail: string } | null;
  /** Its number in the notebook, which it has a moment after its end. */
  cell: number | null;
  author: string; face: string; provenance: Provenance | null;
  /** Its outputs are not in this page's memory; they are asked for again when they come into sight. */
  dropped?: boolean;
}
/** What an execution used and changed; what its files were is known a moment after its end. */
export interface Provenance {
  cpu_seconds?: number; memory_peak_bytes?: number; files?: ChangedFile[]; files_omitted?: number; files_unknown?: string;
}
export interface ChangedFile { path: string; change: "added" | "changed" | "removed"; size: number | null; sha256: string | null }
export interface Page<T> { items: T[]; next_cursor: string | null }
export interface Who {
  principal: string; administrator: boolean; scope: "read" | "run" | "admin"; expires_at: string | null;
  /** Who looks at what is the principal's, if that is another, and at whose things they may look besides their own. */
  person: string; looks_at: string[];
}
export interface ServerEvent { sequence: number; event: string; data: any }

export class Failure extends Error {
  constructor(readonly status: number, readonly code: string, message: string) { super(message); }
}

const HEADERS = { "X-Sandcell-Console": "1" };
const signedOut = new EventTarget();

/** Called when an answer says that nobody is signed in any more. */
export function onSignedOut(listen: () => void): () => void {
  signedOut.addEventListener("out", listen);
  return () => signedOut.removeEventListener("out", listen);
}

async function send(method: string, path: string, body?: unknown, more: RequestInit = {}): Promise<Response> {
  const headers: Record<string, string> = { ...HEADERS, ...(more.headers as Record<string, string>) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(path, { method, ...more, headers, body: body === undefined ? more.body : JSON.stringify(body) });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Failure(0, "unreachable", "The service does not answer.");
  }
  if (answer.ok) return answer;
  const problem = (await answer.json().catch(() => ({})))?.error ?? {};
  if (answer.status === 401 && !path.startsWith("/console/")) signedOut.dispatchEvent(new Event("out"));
  throw new Failure(answer.status, problem.code ?? "", problem.message ?? `The service answered with ${answer.status}.`);
}

export async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal, headers?: Record<string, string>): Promise<T> {
  const answer = await send(method, path, body, { signal, headers });
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

/** An answer that is text. */
export async function readText(path: string, signal?: AbortSignal): Promise<string> {
  return (await send("GET", path, undefined, { signal })).text();
}

/** A file of the service's to this computer, under a name. A link would be asked for without the header. */
export async function download(path: string, name: string, signal?: AbortSignal, onProgress?: (got: number, size: number | null) => void): Promise<void> {
  const answer = await send("GET", path, undefined, { signal });
  const size = answer.headers.get("Content-Length");
  const parts: BlobPart[] = [];
  let got = 0;
  for (const reader = answer.body!.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    got += value.length;
    onProgress?.(got, size === null ? null : Number(size));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** A part of a file of the service's, as far as there is one, and how large the file is. */
export async function readPart(path: string, start: number, end: number, signal?: AbortSignal): Promise<{ content: Uint8Array<ArrayBuffer>; size: number }> {
  const answer = await send("GET", path, undefined, { signal, headers: { Range: `bytes=${start}-${end - 1}` } });
  const content = new Uint8Array(await answer.arrayBuffer());
  return { content, size: Number(answer.headers.get("Content-Range")?.split("/")[1] ?? content.length) };
}

/** A file of the service's, of which at most so many bytes are read; `whole` says whether that is all of it. */
export async function read(path: string, most: number, signal?: AbortSignal): Promise<{ content: Uint8Array<ArrayBuffer>; whole: boolean }> {
  try {
    const { content, size } = await readPart(path, 0, most, signal);
    return { content, whole: size <= content.length };
  } catch (error) {
    if ((error as Failure).status === 416) return { content: new Uint8Array(), whole: true }; // an empty file has no first byte
    throw error;
  }
}

/** Whether a durable file is the one of this digest, without its content; null: the service has no digest of it. */
export async function isFileOf(path: string, sha256: string, signal?: AbortSignal): Promise<boolean | null> {
  try {
    const answer = await send("GET", path, undefined, { signal, headers: { Range: "bytes=0-0", "If-None-Match": `"${sha256}"` } });
    return answer.headers.get("Etag")?.startsWith('"') ? false : null;
  } catch (error) {
    const { status } = error as Failure;
    if (status === 304) return true;
    if (status === 404 || status === 416) return false; // it was not there, or empty
    throw error;
  }
}

/** `fetch` does not say how far an upload is. */
export function upload(path: string, file: File, onProgress: (sent: number) => void, signal?: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    for (const [name, value] of Object.entries(HEADERS)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress(event.loaded);
    request.onerror = () => fail(new Failure(0, "unreachable", "The service does not answer."));
    request.onload = () => {
      if (request.status < 300) { done(); return; }
      let problem: { code?: string; message?: string } = {};
      try { problem = JSON.parse(request.responseText).error ?? {}; } catch { /* not the service's own words */ }
      if (request.status === 401) signedOut.dispatchEvent(new Event("out"));
      fail(new Failure(request.status, problem.code ?? "", problem.message ?? `The service answered with ${request.status}.`));
    };
    request.onabort = () => fail(new DOMException("", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** All items of a list, page by page as they come, or those behind `from`; null: there are none. */
export async function* pages<T>(path: string, signal?: AbortSignal, from: string | null | undefined = undefined): AsyncGenerator<T[]> {
  let cursor = from;
  while (cursor !== null) {
    const more: string = cursor === undefined ? "" : `${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}`;
    const page: Page<T> = await ask("GET", path + more, undefined, signal);
    yield page.items;
    cursor = page.next_cursor;
  }
}

/** Server-sent events until their end. EventSource cannot send the header that says who asks. */
export async function* follow(path: string, signal: AbortSignal, opened?: () => void, headers?: Record<string, string>): AsyncGenerator<ServerEvent> {
  const answer = await send("GET", path, undefined, { signal, headers });
  opened?.();
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const frames = (rest + value).split("\n\n");
      rest = frames.pop()!;
      for (const frame of frames) {
        const fields = new Map(frame.split("\n").map((line) => {
          const at = line.indexOf(": ");
          return [line.slice(0, at), line.slice(at + 2)] as const;
        }));
        const data = fields.get("data");
        if (data !== undefined) {
          yield { sequence: Number(fields.get("id")), event: fields.get("event")!, data: JSON.parse(data) };
        }
      }
    }
  } finally {
    reader.cancel().catch(() => undefined); // who stops following lets the connection go
  }
}
