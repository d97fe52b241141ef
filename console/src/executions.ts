// The executions of a session as they are and as they change: the last are listed and followed by the session's events,
// those before them are listed when somebody scrolls there.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, follow, moveWidget, pages, showAgain, viewOf, type Execution, type Output, type Page, type ServerEvent } from "./api";

/** So long is waited before each further try, and then as the last says. */
export const AGAIN_SECONDS = [1, 2, 5, 10, 30];
const FRAME_MILLISECONDS = 60;
/** Answers that asking again does not change. */
const FINAL = [401, 403, 404];
/** Characters of outputs that this page keeps: of cells that were out of sight for longest they go, and come back. */
const KEPT_CHARACTERS = 32_000_000;
/** What an execution did to files is found out after its end, and then its cell is written, which gives it its number. */
const WRITTEN_MILLISECONDS = 2000;
const RECENT_MILLISECONDS = 20_000;
/** What comes after the end is asked for together; not while somebody here moves widgets, of which the answers tell more. */
const LATE_MILLISECONDS = 300;
const MOVING_MILLISECONDS = 1000;

export interface Followed {
  /** The last ones, without a gap. */
  executions: Execution[];
  /** How many there are before those. */
  earlier: number;
  loaded: boolean;
  problem: string;
  /** Raised by each thing that changes the session itself: a new kernel, its end. */
  changes: number;
  /** Have the outputs of these in memory and keep them there before others; have all listed that come after so many. */
  want: (ids: string[], from: number) => void;
  wantAll: () => void;
  /** What the kernel told after the end of an execution, as somebody moved a widget of it; null: it did not take that. */
  hear: (id: string, events: ServerEvent[] | null) => void;
}

function weigh(execution: Execution): number {
  return [...execution.outputs, ...execution.late].reduce((sum, each) => sum + weighOutput(each), 0);
}

function weighOutput({ text, data, traceback }: Output): number {
  const length = (value: unknown): number => typeof value === "string" ? value.length
    : Array.isArray(value) ? value.reduce<number>((sum, each) => sum + length(each), 0) : value === undefined ? 0 : JSON.stringify(value).length;
  return length(text) + length(traceback) + Object.values(data ?? {}).reduce<number>((sum, each) => sum + length(each), 0);
}

/** So many come at once with their outputs: the last at first, and those before them while somebody scrolls up. */
const NEXT_PAGE = 20;
const NEAR_PAGES = 4;
const WHOLE_PAGES = 100;
const LATER_PAGES = 1000;
/** Who scrolls past cells asks for nothing of them. */
const LOOK_MILLISECONDS = 80;
/** What happens to a session often comes as several events: a restart, the new kernel, what it has of the one before. */
const CHANGES_MILLISECONDS = 400;

/**
 * Everything this knows is in one map by id; what is shown is a copy of it, made a few times a second at most. `whole`:
 * all outputs are asked for, as far as they are kept. Without an `id` there are none yet.
 */
export function useExecutions(id: string, whole = false): Followed {
  const wanted = useRef<(ids: string[], from: number) => void>(() => undefined);
  const wantedAll = useRef<() => void>(() => undefined);
  const heard = useRef<Followed["hear"]>(() => undefined);
  const [shown, setShown] = useState<Followed>({
    executions: [], earlier: 0, loaded: false, problem: "", changes: 0,
    want: (ids, from) => wanted.current(ids, from), wantAll: () => wantedAll.current(),
    hear: (name, events) => heard.current(name, events) });
  const state = useRef(shown);

  useEffect(() => {
    if (!id) return;
    const stop = new AbortController();
    const known = new Map<string, Execution>();
    const streams = new Map<string, AbortController>();
    /** How much is kept of each, those that were wanted last at the end. */
    const weights = new Map<string, number>();
    /** Those that are soon asked for again. */
    const looked = new Set<string>();
    const coming = new Set<string>();
    let moved = 0;
    let inSight = new Set<string>();
    /** Where those that are not listed yet begin, seen from the end; undefined before the first page. */
    let following: string | null | undefined;
    let earlier = 0;
    let reach = Infinity;
    let reaching: Promise<unknown> | undefined;
    let all = whole;
    let kept = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let looking: ReturnType<typeof setTimeout> | undefined;
    let changing: ReturnType<typeof setTimeout> | undefined;

    const show = (change: Partial<Followed> = {}) => {
      state.current = { ...state.current, ...change };
      timer ??= setTimeout(() => {
        timer = undefined;
        setShown({ ...state.current, earlier, executions: [...known.values()].sort(compare) });
      }, FRAME_MILLISECONDS);
    };

    const pause = (failures: number) =>
      new Promise((done) => setTimeout(done, 1000 * AGAIN_SECONDS[Math.min(failures, AGAIN_SECONDS.length - 1)]!));

    /** What an answer says that was asked for until it came, with what is wrong on the page meanwhile. */
    async function insist<T>(work: () => Promise<T>): Promise<T | undefined> {
      for (let failures = 0; !stop.signal.aborted; failures += 1) {
        try {
          const answer = await work();
          if (failures) show({ problem: "" });
          return answer;
        } catch (error) {
          const { status = 0, message } = error as { status?: number; message: string };
          if (stop.signal.aborted) return undefined;
          if (FINAL.includes(status)) {
            show({ loaded: true, problem: status === 404 ? "There is no such session." : message });
            return undefined;
          }
          show({ problem: `${message} Trying again.` });
          await pause(failures);
        }
      }
      return undefined;
    }

    async function fetchOne(execution: string): Promise<void> {
      const path = `/v1/sessions/${id}/executions/${execution}`;
      const found = await insist(() => ask<Execution>("GET", path, undefined, stop.signal).catch((error) => {
        if (error.status === 404) return undefined; // nothing that the list has, either
        throw error;
      }));
      if (found) take(found);
    }

    /** One of them is queued, has begun or has ended: asked for once, followed, and asked for once more at its end. */
    async function note(execution: string, status: Execution["status"]): Promise<void> {
      const before = known.get(execution);
      if (before?.ended_at || streams.has(execution)) return;
      if (before && status === "running") take({ ...before, status, started_at: new Date().toISOString() });
      else await fetchOne(execution);
    }

    function take(execution: Execution): void {
      const before = known.get(execution.id);
      // An answer that took longer than the one after it: what has ended or begun stays so.
      if (before && rank(before) > rank(execution)) return;
      const streamed = streams.has(execution.id);
      // What has come of a running one by its own events is newer than what the list has of it. The text of its
      // streams is in its outputs too.
      const lean = { ...execution, stdout: "", stderr: "" };
      known.set(execution.id, streamed && !execution.ended_at && before ? { ...lean, outputs: before.outputs } : lean);
      if (execution.ended_at) keep(execution.id, weigh(execution));
      const { files, files_unknown: unknown } = execution.provenance ?? {};
      const recent = execution.ended_at !== null && Math.abs(Date.now() - Date.parse(execution.ended_at)) < RECENT_MILLISECONDS;
      const unwritten = execution.cell === null || (execution.started_at && !files && !unknown);
      if (recent && unwritten) askSoon(execution.id, WRITTEN_MILLISECONDS);
      if (execution.ended_at) streams.get(execution.id)?.abort();
      else if (execution.status === "running" && !streamed) void followOne(execution.id);
      show();
    }

    /** What is not in memory comes whole when somebody looks at it. */
    function noteLate(execution: string): void {
      const before = known.get(execution);
      if (before?.ended_at && !before.dropped) askSoon(execution, LATE_MILLISECONDS);
    }

    function askSoon(execution: string, milliseconds: number): void {
      if (looked.has(execution)) return;
      looked.add(execution);
      setTimeout(() => {
        looked.delete(execution);
        if (Date.now() - moved < MOVING_MILLISECONDS) askSoon(execution, MOVING_MILLISECONDS);
        else void fetchOne(execution);
      }, milliseconds);
    }

    function keep(execution: string, weight: number): void {
      kept += weight - (weights.get(execution) ?? 0);
      weights.delete(execution);
      weights.set(execution, weight);
      for (const [oldest, its] of weights) {
        if (kept <= KEPT_CHARACTERS) return;
        if (oldest === execution || inSight.has(oldest)) continue;
        known.set(oldest, { ...known.get(oldest)!, outputs: [], late: [], dropped: true });
        weights.delete(oldest);
        kept -= its;
      }
    }

    heard.current = (execution, events) => {
      const before = known.get(execution);
      moved = Date.now();
      if (!before) return;
      if (events === null) known.set(execution, { ...before, outputs: before.outputs.map(showAgain) });
      let streamed: Streamed = { outputs: before.late, clearNext: false };
      for (const event of events ?? []) {
        const outputs = streamed.outputs;
        streamed = apply(streamed, event);
        if (streamed.outputs === outputs) changeOthers(event);
      }
      known.set(execution, { ...known.get(execution)!, late: streamed.outputs });
      show();
    };
    wantedAll.current = () => { all = true; bring(); };
    wanted.current = (ids, from) => {
      inSight = new Set(ids);
      reach = from;
      for (const each of ids) {
        const weight = weights.get(each);
        if (weight !== undefined) { weights.delete(each); weights.set(each, weight); }
      }
      looking ??= setTimeout(() => { looking = undefined; bring(); }, LOOK_MILLISECONDS);
    };

    function bring(): void {
      void reachOut();
      for (const each of inSight) {
        if (!known.get(each)?.dropped || coming.has(each)) continue;
        coming.add(each);
        void fetchOne(each).finally(() => coming.delete(each));
      }
    }

    /** Of one whose outcome was not asked for: what this knows of it already stays. */
    function takeLean(execution: Execution): void {
      if (!execution.ended_at) take(execution);
      else if (!known.get(execution.id)?.ended_at) { known.set(execution.id, { ...execution, dropped: true }); show(); }
    }

    async function followOne(execution: string): Promise<void> {
      const own = new AbortController();
      const end = () => own.abort();
      stop.signal.addEventListener("abort", end);
      streams.set(execution, own);
      // From its start, whatever of it the list had: the events have that once more.
      let streamed: Streamed = { outputs: [], clearNext: false };
      let over = false;
      try {
        for await (const event of follow(`/v1/sessions/${id}/executions/${execution}/events`, own.signal)) {
          const before = known.get(execution);
          const outputs = streamed.outputs;
          over = event.event === "ended";
          streamed = apply(streamed, event);
          if (streamed.outputs === outputs) changeOthers(event);
          if (before && !before.ended_at) { known.set(execution, { ...before, outputs: streamed.outputs }); show(); }
        }
      } catch {
        // The events of the session say when it has ended; a connection that was lost is made again.
      }
      if (!over && !own.signal.aborted) await pause(0);
      streams.delete(execution);
      stop.signal.removeEventListener("abort", end);
      if (!stop.signal.aborted) await fetchOne(execution);
    }

    /** A display of an earlier execution, of which this one has changed what it shows. */
    function changeOthers(event: ServerEvent): void {
      if (event.event !== "widget" && event.event !== "update") return;
      for (const [other, before] of known) {
        if (!before.outputs.length || streams.has(other)) continue;
        const outputs = change(before.outputs, event);
        if (outputs !== before.outputs) known.set(other, { ...before, outputs });
      }
    }

    const newest = `/v1/sessions/${id}/executions?commands=true&newest_first=true&limit=`;

    /** How many more are to be listed: those that somebody looks at, and those that wait or run before others that wait. */
    function missing(): number {
      if (all) return earlier;
      const [oldest] = [...known.values()].sort(compare);
      return Math.max(earlier - reach, oldest && !oldest.ended_at ? Math.min(earlier, WHOLE_PAGES) : 0);
    }

    async function reachBack(): Promise<void> {
      for (let more = missing(); following && more > 0; more = missing()) {
        // Who scrolls up is to see those that come next; who jumps passes them.
        const full = whole || more <= NEAR_PAGES * NEXT_PAGE;
        const limit = whole ? WHOLE_PAGES : full ? NEXT_PAGE : `${Math.min(more, LATER_PAGES)}&outcomes=false`;
        const page: Page<Execution> = await ask("GET", `${newest}${limit}&cursor=${encodeURIComponent(following)}`, undefined, stop.signal);
        following = page.next_cursor;
        earlier = following === null ? 0 : Math.max(1, earlier - page.items.length);
        page.items.forEach(full ? take : takeLean);
      }
    }

    const reachOut = () => reaching ??= insist(reachBack).finally(() => { reaching = undefined; });

    async function listFirst(): Promise<void> {
      const first: Page<Execution> & { total: number } =
        await ask("GET", newest + (whole ? WHOLE_PAGES : NEXT_PAGE), undefined, stop.signal);
      following = first.next_cursor;
      earlier = first.total - first.items.length;
      first.items.forEach(take);
    }

    /** After a connection that was lost: what has come since, back to what is known, and what has become of that. */
    async function listMissed(): Promise<void> {
      const open = new Set([...known.values()].filter((each) => !each.ended_at).map((each) => each.id));
      for await (const page of pages<Execution>(`${newest}${NEXT_PAGE}`, stop.signal)) {
        const met = page.some((each) => known.has(each.id));
        for (const each of page) { open.delete(each.id); take(each); }
        if (met) break;
      }
      await Promise.all([...open].map(fetchOne));
    }

    async function listAll(): Promise<void> {
      if (following === undefined) await listFirst(); else await listMissed();
      if (whole) await reachOut();
      show({ loaded: true, problem: "" });
      bring();
    }

    let listing: Promise<unknown> = Promise.resolve();
    /** After the one that goes on: that may have passed what has changed since. */
    const list = () => { listing = listing.then(() => insist(listAll)); };

    /** Of several that come together those who look at the session hear once. */
    const noteChange = () => {
      changing ??= setTimeout(() => { changing = undefined; show({ changes: state.current.changes + 1 }); }, CHANGES_MILLISECONDS);
    };

    async function listen(): Promise<void> {
      for (let failures = 0; !stop.signal.aborted;) {
        try {
          // Followed before it is listed: what happens between the two is in the one or in the other.
          for await (const event of follow(`/v1/sessions/${id}/events`, stop.signal, list)) {
            failures = 0;
            if (event.event === "execution" || event.event === "command") await note(event.data.execution_id, event.data.status);
            else if (event.event === "late") noteLate(event.data.execution_id);
            else if (event.event === "truncated") list();
            else noteChange();
            if (event.event === "ended") { list(); return; }
          }
        } catch (error) {
          if (stop.signal.aborted) return;
          if ((error as { status?: number }).status === 404) { show({ loaded: true, problem: "There is no such session." }); return; }
          show({ problem: "The connection was lost; trying again." });
        }
        await pause(failures++);
      }
    }

    void listen();
    return () => { stop.abort(); clearTimeout(timer); clearTimeout(looking); clearTimeout(changing); };
  }, [id]);

  return shown;
}

function rank(execution: Execution): number {
  return execution.ended_at ? 2 : execution.status === "queued" ? 0 : 1;
}

/** By when they were asked for, whichever was heard of first. */
function compare(a: Execution, b: Execution): number {
  if (a.queued_at !== b.queued_at) return a.queued_at < b.queued_at ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

interface Streamed { outputs: Output[]; clearNext: boolean }

/** Outputs after one event of a running execution; with `clearNext` the next output takes the place of all. */
function apply({ outputs, clearNext }: Streamed, event: ServerEvent): Streamed {
  if (event.event === "clear") return event.data.wait ? { outputs, clearNext: true } : { outputs: [], clearNext: false };
  const adds = ["stream", "display", "result", "error"].includes(event.event);
  return { outputs: change(adds && clearNext ? [] : outputs, event), clearNext: clearNext && !adds };
}

function change(outputs: Output[], { event, data }: ServerEvent): Output[] {
  if (event === "stream") {
    const last = outputs.at(-1);
    if (last?.output_type === "stream" && last.name === data.name) {
      return [...outputs.slice(0, -1), { ...last, text: `${last.text}${data.text}` }];
    }
    return [...outputs, { output_type: "stream", name: data.name, text: data.text }];
  }
  if (event === "display" || event === "result") {
    return [...outputs, { output_type: event === "result" ? "execute_result" : "display_data", data: data.data, display_id: data.display_id }];
  }
  if (event === "update") {
    return replace(outputs, (each) => ((each.display_id ?? viewOf(each)) === data.display_id ? { ...each, data: data.data } : each));
  }
  if (event === "widget") return replace(outputs, (each) => moveWidget(each, data));
  if (event === "error") return [...outputs, { output_type: "error", ename: data.name, evalue: data.value, traceback: data.traceback }];
  return outputs;
}

/** The same array where none is another. */
function replace(outputs: Output[], make: (output: Output) => Output): Output[] {
  const made = outputs.map(make);
  return made.some((each, at) => each !== outputs[at]) ? made : outputs;
}
