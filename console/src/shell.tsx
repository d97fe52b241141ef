// Shells of a session: programs in terminals of its sandbox, which go on while nobody looks, for a while.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem, useAct } from "./answers";
import { ask, follow, type Failure } from "./api";

type Headers = () => Record<string, string>;
interface Ended { exit_code: number | null; signal: string | null; timed_out: boolean; why: string | null }
interface Program { id: string; command: string[]; terminal: boolean; ended: Ended | null }

const SCROLLBACK = 5000;
const MOST_INPUT_BYTES = 256 * 1024;
const RESIZE_MS = 100;
const RETRY_MS = 500;
const MOST_RETRY_MS = 5000;
const LEAVE_KEY = "F6";

interface ShellsProps { id: string; headers: Headers; onClose: () => void; onOpen: (ids: readonly string[]) => void }

/** `headers` name the lease that is held here, if there is one; `onOpen` hears which shells are open here, each time that changes. */
export function Shells({ id, headers, onClose, onOpen }: ShellsProps) {
  const [open, setOpen] = useState<Program[] | null>(null);
  const [shown, setShown] = useState("");
  const [reader, setReader] = useState(false);
  const { doing, failed, act } = useAct();
  const place = useRef<HTMLElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const path = `/v1/sessions/${id}/programs`;

  const start = () => act(async () => {
    const started = await ask<Program>("POST", path, { terminal: { columns: 80, rows: 24 } }, undefined, headers());
    setOpen((before) => [...(before ?? []), started]);
    setShown(started.id);
  });
  useEffect(() => {
    let gone = false;
    void act(async () => {
      const running = (await ask<{ items: Program[] }>("GET", path)).items.filter((each) => each.terminal);
      if (gone) return;
      setOpen(running);
      if (running[0]) setShown(running[0].id);
      else await start();
    });
    return () => { gone = true; };
  }, [id]);

  useEffect(() => { onOpen((open ?? []).map((each) => each.id)); }, [open]);
  useEffect(() => () => onOpen([]), []);
  useEffect(() => { place.current!.scrollIntoView({ block: "nearest" }); }, []);

  function close(program: Program): void {
    // One that has ended is gone already.
    void ask("POST", `${path}/${program.id}/signal`, { signal: "SIGHUP" }).catch(() => undefined);
    const left = (open ?? []).filter((each) => each.id !== program.id);
    setOpen(left);
    if (shown === program.id) setShown(left[0]?.id ?? "");
  }

  return (
    <section ref={place} class="shells" aria-label="Shells">
      <div class="bar">
        {(open ?? []).map((each, number) => (
          <span key={each.id} class="tab">
            <button type="button" aria-pressed={shown === each.id} title={`From a terminal: sandcell shell ${id} --attach ${each.id.slice(0, 8)}`} onClick={() => setShown(each.id)}>{nameOf(each)} {number + 1}</button>
            <button type="button" class="quiet" aria-label={`End ${nameOf(each)} ${number + 1}`} title="End it" onClick={() => close(each)}>×</button>
          </span>
        ))}
        <button type="button" disabled={doing} onClick={start}>New shell</button>
        <span class="grow" />
        <span class="hint">Ctrl+{LEAVE_KEY} leaves the terminal</span>
        <label><input type="checkbox" checked={reader} onChange={(event) => setReader(event.currentTarget.checked)} /> For a screen reader</label>
        <button type="button" ref={leave} onClick={onClose} title="Shells go on for ten minutes">Close</button>
      </div>
      <Problem text={failed} again={open ? undefined : start} />
      {(open ?? []).map((each) => (
        <Screen key={each.id} session={id} headers={headers} program={each} shown={shown === each.id} reader={reader}
          onLeave={() => leave.current?.focus()} onAnother={start} />
      ))}
      {open?.length === 0 && !doing && <p class="empty">No shell is open.</p>}
    </section>
  );
}

function nameOf(program: Program): string {
  return (program.command[0] ?? "shell").split("/").pop()!.slice(0, 40);
}

interface ScreenProps { session: string; headers: Headers; program: Program; shown: boolean; reader: boolean; onLeave: () => void; onAnother: () => void }

function Screen({ session, headers, program, shown, reader, onLeave, onAnother }: ScreenProps) {
  const place = useRef<HTMLDivElement>(null);
  const terminal = useRef<Terminal | null>(null);
  const [state, setState] = useState("");
  const [ended, setEnded] = useState(false);

  useEffect(() => {
    const path = `/v1/sessions/${session}/programs/${program.id}`;
    const stop = new AbortController();
    const made = makeTerminal(onLeave);
    const fit = new FitAddon();
    terminal.current = made;
    made.loadAddon(fit);
    openIn(place.current!, made);
    takeDictation(made);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const paint = () => { made.options.theme = findTheme(place.current!); };
    paint();
    dark.addEventListener("change", paint);
    let timer = 0;
    const resize = new ResizeObserver(() => {
      clearTimeout(timer);
      timer = window.setTimeout(() => { if (place.current!.offsetParent) fit.fit(); }, RESIZE_MS);
    });
    resize.observe(place.current!);
    const tell = () => ask("POST", `${path}/size`, { columns: made.cols, rows: made.rows }).catch(() => undefined);
    made.onResize(() => void tell());
    fit.fit();
    void tell();
    const input = new Input(headers, `${path}/input`, setState);
    made.onData((text) => input.add(new TextEncoder().encode(text)));
    made.onBinary((text) => input.add(Uint8Array.from(text, (each) => each.charCodeAt(0))));
    void show(path, made, stop.signal, setState).then((end) => {
      if (stop.signal.aborted) return;
      made.options.disableStdin = true;
      setState(end);
      setEnded(true);
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
      resize.disconnect();
      dark.removeEventListener("change", paint);
      made.dispose();
    };
  }, [session, program.id]);
  useEffect(() => { if (shown) terminal.current?.focus(); }, [shown]);
  useEffect(() => { terminal.current!.options.screenReaderMode = reader; }, [reader]);

  return (
    <div class="screen" hidden={!shown}>
      <div ref={place} class="terminal-place" />
      <p role="status" class={state ? "note" : "hidden"}>{state} {ended && <button type="button" onClick={onAnother}>Open another</button>}</p>
    </div>
  );
}

/** What came from a sandbox moves the cursor and colours: it has no links, no title, and nothing of the browser's. */
function makeTerminal(onLeave: () => void): Terminal {
  styleSpans();
  const made = new Terminal({
    scrollback: SCROLLBACK,
    minimumContrastRatio: 4.5,
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 13,
    linkHandler: { activate: () => undefined },
  });
  for (const command of [0, 1, 2, 8, 52]) made.parser.registerOscHandler(command, () => true);
  made.attachCustomKeyEventHandler((event) => {
    if (event.ctrlKey && event.key === LEAVE_KEY) {
      if (event.type === "keydown") onLeave();
      event.preventDefault();
      return false;
    }
    // What is selected is copied, as elsewhere on the page; else Ctrl+C is the program's.
    return !(event.ctrlKey && event.key === "c" && made.hasSelection());
  });
  return made;
}

/**
 * What is dictated comes as text without a key. In the way for screen readers xterm leaves all text to keys (its issue
 * 3679: text that follows a key would come twice), so that this sends what no key was pressed for.
 */
function takeDictation(terminal: Terminal): void {
  const field = terminal.textarea!;
  let pressed = false;
  field.addEventListener("keydown", () => { pressed = true; }, true);
  for (const end of ["keyup", "blur"]) field.addEventListener(end, () => { pressed = false; }, true);
  field.addEventListener("input", (event) => {
    const { data, inputType, isComposing } = event as InputEvent;
    if (!terminal.options.screenReaderMode || pressed || isComposing) return;
    if (inputType === "insertText" && data) terminal.input(data);
    else if (inputType === "insertLineBreak") terminal.input("\r");
  });
}

/**
 * The page allows no style in its document, for the sake of what it shows. The terminal writes some as it opens: its sheets
 * are made such as a script may make, and the style of a character is set property by property.
 */
function openIn(place: HTMLElement, terminal: Terminal): void {
  // Its option `documentOverride` is not asked for all of them (xterm 6.0).
  document.createElement = createElement as typeof document.createElement;
  try {
    terminal.open(place);
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}

/** Characters of a colour of their own are made whenever they come. */
function styleSpans(): void {
  HTMLSpanElement.prototype.setAttribute = function setAttribute(name: string, value: string): void {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}

function createElement(tag: string): HTMLElement {
  // An element that only holds the text of a sheet: of a style the browser would say that it is not allowed.
  const made = Document.prototype.createElement.call(document, tag === "style" ? "template" : tag);
  if (tag === "style") adopt(made);
  return made;
}

function adopt(element: HTMLElement): void {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  new MutationObserver(() => sheet.replaceSync(element.textContent ?? "")).observe(element, { childList: true });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    remove();
  };
}

function findTheme(place: HTMLElement) {
  const { color, backgroundColor } = getComputedStyle(place);
  return { foreground: color, background: backgroundColor, cursor: color, cursorAccent: backgroundColor, selectionBackground: "#4a90d966" };
}

/** What is typed, in order: one request at a time, which takes along what came meanwhile. */
class Input {
  private waiting: Uint8Array<ArrayBuffer>[] = [];
  private sending = false;
  constructor(private headers: Headers, private path: string, private say: (problem: string) => void) {}

  add(data: Uint8Array<ArrayBuffer>): void {
    for (let at = 0; at < data.length; at += MOST_INPUT_BYTES) this.waiting.push(data.slice(at, at + MOST_INPUT_BYTES));
    if (!this.sending) void this.send();
  }

  private async send(): Promise<void> {
    this.sending = true;
    while (this.waiting.length > 0) {
      const taken: Uint8Array[] = [];
      let size = 0;
      while (this.waiting[0] && (size === 0 || size + this.waiting[0].length <= MOST_INPUT_BYTES)) {
        size += this.waiting[0].length;
        taken.push(this.waiting.shift()!);
      }
      await this.sendOne(encode(taken));
    }
    this.sending = false;
  }

  private async sendOne(data: string): Promise<void> {
    for (;;) {
      try {
        await ask("POST", this.path, { data }, undefined, this.headers());
        return;
      } catch (error) {
        const { status, message } = error as Failure;
        if (status !== 429) {
          if (status !== 404 && !(status === 409 && message.includes("has ended"))) this.say(`${message} What was typed may not have arrived.`);
          return;
        }
        await new Promise((done) => setTimeout(done, RETRY_MS)); // the program has not read what it has
      }
    }
  }
}

function encode(pieces: Uint8Array[]): string {
  let text = "";
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += 8192) text += String.fromCharCode(...piece.subarray(at, at + 8192));
  }
  return btoa(text);
}

/** Show a program's output until it has ended; how it did. A broken connection goes on where it was. */
async function show(path: string, terminal: Terminal, signal: AbortSignal, say: (state: string) => void): Promise<string> {
  let last: number | null = null;
  let wait = RETRY_MS;
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = last === null ? {} : { "Last-Event-ID": String(last) };
      for await (const { sequence, event, data } of follow(`${path}/events`, signal, () => { say(""); wait = RETRY_MS; }, headers)) {
        if (event === "ended") return explain(data as Ended);
        if (event === "gap") terminal.write(`\r\n[${data.missed_bytes.toLocaleString("en")} bytes are missing]\r\n`);
        else {
          const bytes = Uint8Array.from(atob(data.data), (each) => each.charCodeAt(0));
          await new Promise<void>((done) => terminal.write(bytes, done)); // the program waits for who does not keep up
        }
        last = sequence;
      }
    } catch (error) {
      const { status, message } = error as Failure;
      if (signal.aborted) break;
      if (status === 404 || status === 409 || status === 401 || status === 403) return message;
    }
    say("The connection is lost; trying again.");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, MOST_RETRY_MS);
  }
  return "";
}

function explain(end: Ended): string {
  if (end.why) return `It ended: ${end.why}.`;
  if (end.timed_out) return "Its time was up.";
  return end.signal ? `It was ended by ${end.signal}.` : `It ended with status ${end.exit_code ?? 0}.`;
}
