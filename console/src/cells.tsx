// The cells of a session, of which only those near the window are in the page: thousands stay smooth.

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ChangedFile, Execution, Provenance } from "./api";
import { Code, Exit, explainDeath, Numbers } from "./code";
import { StopButton, Task } from "./commands";
import type { Move } from "./frames/talk";
import { Notes, placeNotes, sameNotes, type Note } from "./notes";
import { Mover, Outputs } from "./outputs";
import { duration, size, useNow } from "./time";

const GUESSED_HEIGHT = 90;
const BEYOND_WINDOW = 1200;
/** Cells are listed before they come that near, so that somebody who scrolls up meets no gap. */
const LISTED_AHEAD = 3000;
const NEAR_END = 80;
/** What is drawn changes after so many pixels of scrolling, not after each. */
const STEP = 200;
const TWICE_MILLISECONDS = 800;
const TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;
const ENDS: Record<string, string> = {
  timeout: "Stopped: it ran into its time limit.", interrupted: "Interrupted.", rejected: "Not run.",
};

/** What keys do while a cell has the focus, as in Jupyter: Enter, I twice and 0 twice. */
export interface Keys { edit: () => void; interrupt: () => void; restart: () => void }

interface CellsProps {
  executions: Execution[]; notes: Note[]; earlier: number; want: (ids: string[], from: number) => void; target: { id: string } | null;
  onFile: (file: ChangedFile) => void; keys: Keys;
  /** Whether the session is live, and somebody may stop what runs in it. */
  live: boolean; may: boolean;
  /** Those whose terminals are open below. */
  shells: readonly string[];
  /** Takes moves of widgets to the kernel of this generation; null: none hears of them, undefined: that is not known yet. */
  mover: { generation: number; move: (id: string, move: Move) => void } | null | undefined;
}

export function Cells({ executions, notes, earlier, want, target, onFile, keys, live, may, shells, mover }: CellsProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const atEnd = useRef(true);
  const lastTop = useRef(0);
  const [view, setView] = useState({ top: 0, height: 1000 });
  const [measured, setMeasured] = useState(0);

  const offsets = useMemo(() => {
    const found = new Float64Array(executions.length + 1);
    found[0] = earlier * GUESSED_HEIGHT;
    executions.forEach((each, at) => { found[at + 1] = found[at]! + (heights.current.get(each.id) ?? GUESSED_HEIGHT); });
    return found;
  }, [executions, earlier, measured]);
  const placed = useMemo(() => placeNotes(notes, executions, earlier === 0), [notes, executions, earlier]);
  const top = view.top - BEYOND_WINDOW;
  const first = search(offsets, top);
  const last = Math.min(executions.length, search(offsets, view.top + view.height + BEYOND_WINDOW) + 1);
  // What has not been measured yet may be high enough.
  const from = !measured ? earlier : Math.max(0, Math.min(earlier, Math.floor((top - LISTED_AHEAD) / GUESSED_HEIGHT)));

  const observer = useMemo(() => new ResizeObserver((entries) => {
    let changed = false;
    for (const entry of entries) {
      const id = (entry.target as HTMLElement).dataset["id"]!;
      const height = entry.borderBoxSize[0]!.blockSize;
      if (height > 0 && heights.current.get(id) !== height) { heights.current.set(id, height); changed = true; }
    }
    if (changed) setMeasured((count) => count + 1);
  }), []);
  useEffect(() => () => observer.disconnect(), []);

  const look = () => {
    const element = scroller.current;
    if (!element) return;
    // Outputs grow while they load: only who goes up has left the end.
    if (isNearEnd(element)) atEnd.current = true;
    else if (element.scrollTop < lastTop.current) atEnd.current = false;
    lastTop.current = element.scrollTop;
    const seen = { top: Math.floor(element.scrollTop / STEP) * STEP, height: element.clientHeight + STEP };
    setView((before) => (before.top === seen.top && before.height === seen.height ? before : seen));
  };
  const stayAtEnd = () => {
    const element = scroller.current;
    if (!element || !atEnd.current) return; // no element: what the browser still says of a page that is gone
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  };
  useEffect(() => {
    // What opens beside or below the cells leaves them less room.
    const sizes = new ResizeObserver(() => { stayAtEnd(); look(); });
    sizes.observe(scroller.current!);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (executions.length) want(executions.slice(first, last).map((each) => each.id), from);
  }, [executions, first, last, from]);
  useEffect(() => {
    const at = executions.findIndex((each) => each.id === target?.id);
    if (at < 0) return;
    atEnd.current = false;
    scroller.current!.scrollTop = offsets[at]!;
  }, [target]);
  // Who reads the end goes on reading the end; who reads further up is left there.
  useLayoutEffect(() => {
    const element = scroller.current!;
    // Who has just gone up, of which the browser is still to tell, is not to be taken back down.
    if (element.scrollTop < lastTop.current && !isNearEnd(element)) atEnd.current = false;
    stayAtEnd();
  }, [offsets, placed]);

  const pressed = useRef({ key: "", at: 0 });
  const press = (event: KeyboardEvent) => {
    const { key, timeStamp: at, target: on } = event;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const twice = key === pressed.current.key && at - pressed.current.at < TWICE_MILLISECONDS;
    pressed.current = { key: twice ? "" : key, at };
    if (key === "j" || key === "k") step(scroller.current!, key === "j");
    else if (key === "Enter" && !(on as HTMLElement).closest("button")) keys.edit();
    else if (key === "i" && twice) keys.interrupt();
    else if (key === "0" && twice) keys.restart();
    else return;
    event.preventDefault();
  };

  return (
    <div ref={scroller} class="cells" onScroll={look} onKeyDown={press} tabIndex={0} role="feed" aria-label="Cells" aria-busy="false">
      <div style={{ height: `${offsets[first]}px` }} />
      {executions.slice(first, last).map((each, at) => (
        <Cell key={each.id} execution={each} notes={placed[first + at]!} before={executions[first + at - 1]} number={earlier + first + at + 1}
          count={earlier + executions.length} observer={observer} onFile={onFile} live={live} may={may} below={shells.includes(each.id)}
          move={mover && (mover.generation === each.generation ? mover.move : null)} height={each.dropped ? heights.current.get(each.id) : undefined} />
      ))}
      <div style={{ height: `${offsets[executions.length]! - offsets[last]!}px` }} />
      <Notes notes={placed.at(-1)!} died={executions.at(-1)?.death?.detail} />
    </div>
  );
}

/** The focus to the cell after the one that has it, or before it; from outside of them to the last. */
function step(scroller: HTMLElement, down: boolean): void {
  const own = document.activeElement?.closest(".cell");
  const next = own ? (down ? own.nextElementSibling : own.previousElementSibling) : [...scroller.querySelectorAll(".cell")].at(-1);
  if (next?.matches(".cell")) (next as HTMLElement).focus();
  else scroller.scrollBy(0, (down ? 1 : -1) * scroller.clientHeight / 2); // the next one is not in the page yet
}

function isNearEnd(element: HTMLElement): boolean {
  return element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END;
}

/** The last place whose offset is not beyond this one. */
function search(offsets: Float64Array, wanted: number): number {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle]! <= wanted) low = middle; else high = middle - 1;
  }
  return low;
}

interface CellProps { execution: Execution; notes: Note[]; before?: Execution; number: number; count: number; observer: ResizeObserver; onFile: (file: ChangedFile) => void; live: boolean; may: boolean; below: boolean; height?: number; move: ((id: string, move: Move) => void) | null | undefined }

const Cell = memo(function Cell({ execution, notes, before, number, count, observer, onFile, live, may, below, height, move }: CellProps) {
  const element = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const own = element.current!;
    observer.observe(own);
    return () => observer.unobserve(own);
  }, []);
  const running = execution.status === "running";
  const command = execution.kind === "command";
  const mover = useMemo(() => move && ((what: Move) => move(execution.id, what)), [move, execution.id]);
  const sentence = explain(execution);
  return (
    <article ref={element} tabIndex={-1} class={`cell ${execution.kind} ${execution.status}`} data-id={execution.id}
      aria-label={[execution.cell === null ? "Cell" : `Cell ${execution.cell}`, command && "shell command", execution.status].filter(Boolean).join(", ")}
      aria-posinset={number} aria-setsize={count} style={height === undefined ? undefined : { minHeight: `${height}px` }}>
      <Notes notes={notes} died={before?.death?.detail} />
      <div class="head">
        <Numbers number={execution.cell} of={execution} />
        <Code of={execution} />
        <span class="took"><Took execution={execution} /> <Exit code={execution.exit_code} /><By execution={execution} /></span>
      </div>
      <Mover.Provider value={mover}>
        <div class="outputs">
          {execution.dropped ? <p class="hint">Its output comes.</p> : !(running && below) && <Outputs outputs={execution.outputs} coming={running} />}
          {execution.late.length > 0 && <>{execution.task === null && <p class="hint">Came after the end:</p>}<Outputs outputs={execution.late} /></>}
          {running && <p class="hint"><span role="status">{below ? "Open below" : "Running"}</span> {command && live && may && <StopButton method="POST" address={`/v1/sessions/${execution.session_id}/executions/${execution.id}/interrupt`} />}</p>}
          {execution.task !== null && <Task of={execution} live={live} may={may} />}
          {sentence && <p class={execution.status === "queued" ? "hint" : "sentence"}>{sentence}</p>}
          {execution.provenance?.files && <Changes provenance={execution.provenance} onFile={onFile} />}
          {execution.memory && !execution.death && <p class="sentence">{execution.memory.detail}</p>}
          {execution.truncated.stdout + execution.truncated.stderr + execution.truncated.outputs > 0 && (
            <p class="hint">A part of this output was left out, since it is long; the notebook says where the whole is.</p>
          )}
        </div>
      </Mover.Provider>
    </article>
  );
}, (a, b) => a.execution === b.execution && sameNotes(a.notes, b.notes) && a.before?.death === b.before?.death && a.number === b.number && a.count === b.count && a.move === b.move && a.live === b.live && a.may === b.may && a.below === b.below);

const FACES: Record<string, string> = { rest: "REST", jupyter: "Jupyter", agentcore: "AgentCore", agent_engine: "Agent Engine", e2b: "E2B", mcp: "MCP", librechat: "LibreChat", replay: "replay" };

/** Who ran it, and through which interface. */
function By({ execution: { author, face } }: { execution: Execution }) {
  const through = FACES[face] ?? face;
  return author ? <span class="by" title={`Run by ${author}${through && `, through ${through}`}`}>{author}{through && ` · ${through}`}</span> : null;
}

const SIGNS = { added: "+", changed: "±", removed: "−" };
const MOST_FILES = 6;

/** The files of the workspace that are others since it ran. */
function Changes({ provenance: { files = [], files_omitted: omitted = 0 }, onFile }: { provenance: Provenance; onFile: (file: ChangedFile) => void }) {
  const [all, setAll] = useState(false);
  if (files.length === 0) return null;
  const shown = all ? files : files.slice(0, MOST_FILES);
  const more = files.length - shown.length;
  return (
    <p class="changes" aria-label="Files that it changed">
      {shown.map((each) => (
        <span key={each.path} class={each.change} title={`${each.change}${each.sha256 ? `, SHA-256 ${each.sha256}` : ""}`}>
          {SIGNS[each.change]} {each.change === "removed" ? <del>{each.path}</del>
            : <button type="button" class="quiet" onClick={() => onFile(each)}>{each.path}</button>}
          {each.change !== "removed" && each.size !== null && <span class="hint"> {size(each.size)}</span>}
        </span>
      ))}
      {more > 0 && <button type="button" class="quiet" onClick={() => setAll(true)}>{more} more</button>}
      {omitted > 0 && <span class="hint">and {omitted.toLocaleString()} that are not named</span>}
    </p>
  );
}

function Took({ execution }: { execution: Execution }) {
  const { queued_at: queued, started_at: started, ended_at: ended } = execution;
  if (execution.task !== null) return <time dateTime={queued} title={new Date(queued).toLocaleString()}>background</time>;
  if (started && ended) {
    return <time dateTime={started} title={describeUse(execution)}>{duration(Date.parse(ended) - Date.parse(started))}</time>;
  }
  return ended ? <time dateTime={queued}>not run</time> : <Running since={started ?? queued} />;
}

/** When it ran, and what it used. */
function describeUse({ started_at: started, provenance }: Execution): string {
  const used = [provenance?.cpu_seconds !== undefined && `${duration(provenance.cpu_seconds * 1000)} of processor time`,
    provenance?.memory_peak_bytes && `${size(provenance.memory_peak_bytes)} of memory at most`].filter(Boolean);
  return [new Date(started!).toLocaleString(), ...used].join(", ");
}

/** How long it runs or waits by now. */
function Running({ since }: { since: string }) {
  const passed = Math.max(0, useNow(1) - Date.parse(since));
  return <time dateTime={since} title={new Date(since).toLocaleString()}>{duration(Math.floor(passed / 1000) * 1000)}</time>;
}

/** How it ended, where its outputs do not say. */
function explain(execution: Execution): string {
  if (execution.death) return explainDeath(execution);
  if (execution.task !== null) return ""; // see `Task`
  const shownError = execution.outputs.some((each) => each.output_type === "error");
  const error = execution.error && !shownError ? `${execution.error.name}: ${execution.error.value}` : "";
  if (execution.status === "queued") return execution.why ? `Waits: ${execution.why.replace(TIME, (time) => new Date(time).toLocaleString())}.` : "Waits for what runs before it.";
  return [ENDS[execution.status], error, execution.why && `${execution.why}.`].filter(Boolean).join(" ");
}
