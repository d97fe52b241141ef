// The executions of a session as they are and as they change: listed once, then followed by its events.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, follow, pages, type Execution, type Output, type ServerEvent } from "./api";

const AGAIN_SECONDS = [1, 2, 5, 10, 30];
const FRAME_MILLISECONDS = 60;

export interface Followed {
  executions: Execution[];
  loaded: boolean;
  problem: string;
  /** Raised by each thing that changes the session itself: a new kernel, its end. */
  changes: number;
}

/** Everything this knows is in one map by id; what is shown is a copy of it, made a few times a second at most. */
export function useExecutions(id: string): Followed {
  const [shown, setShown] = useState<Followed>({ executions: [], loaded: false, problem: "", changes: 0 });
  const state = useRef(shown);

  useEffect(() => {
    const stop = new AbortController();
    const known = new Map<string, Execution>();
    const streams = new Map<string, AbortController>();
    let timer: ReturnType<typeof setTimeout> | undefined;

    const show = (change: Partial<Followed> = {}) => {
      state.current = { ...state.current, ...change };
      timer ??= setTimeout(() => {
        timer = undefined;
        setShown({ ...state.current, executions: [...known.values()] });
      }, FRAME_MILLISECONDS);
    };

    async function fetchOne(execution: string): Promise<void> {
      try {
        take(await ask<Execution>("GET", `/v1/sessions/${id}/executions/${execution}`, undefined, stop.signal));
      } catch { /* the next event, or the next list, has it */ }
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
      const streamed = streams.has(execution.id);
      // What has come of a running one by its own events is newer than what the list has of it.
      known.set(execution.id, streamed && !execution.ended_at && before ? { ...execution, outputs: before.outputs } : execution);
      if (execution.ended_at) streams.get(execution.id)?.abort();
      else if (execution.status === "running" && !streamed) void followOne(execution.id);
      show();
    }

    async function followOne(execution: string): Promise<void> {
      const own = new AbortController();
      const end = () => own.abort();
      stop.signal.addEventListener("abort", end);
      streams.set(execution, own);
      try {
        for await (const event of follow(`/v1/sessions/${id}/executions/${execution}/events`, own.signal)) {
          const before = known.get(execution);
          if (before) { known.set(execution, { ...before, outputs: apply(before.outputs, event) }); show(); }
        }
      } catch { /* the events of the session say when it has ended */ }
      streams.delete(execution);
      stop.signal.removeEventListener("abort", end);
      if (!stop.signal.aborted) await fetchOne(execution);
    }

    async function list(): Promise<void> {
      for await (const page of pages<Execution>(`/v1/sessions/${id}/executions?limit=100`, stop.signal)) page.forEach(take);
      show({ loaded: true, problem: "" });
    }

    async function listen(): Promise<void> {
      for (let failures = 0; !stop.signal.aborted;) {
        try {
          // Followed before it is listed: what happens between the two is in the one or in the other.
          let listing: Promise<void> | undefined;
          for await (const event of follow(`/v1/sessions/${id}/events`, stop.signal, () => { listing = list(); })) {
            failures = 0;
            if (event.event === "execution") await note(event.data.execution_id, event.data.status);
            else if (event.event === "truncated") await list();
            else show({ changes: state.current.changes + 1 });
            if (event.event === "ended") { await listing; await list(); return; }
          }
          await listing;
        } catch (error) {
          if (stop.signal.aborted) return;
          if ((error as { status?: number }).status === 404) { show({ loaded: true, problem: "There is no such session." }); return; }
          show({ problem: "The connection was lost; trying again." });
        }
        await new Promise((done) => setTimeout(done, 1000 * AGAIN_SECONDS[Math.min(failures++, AGAIN_SECONDS.length - 1)]!));
      }
    }

    void listen();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [id]);

  return shown;
}

/** Outputs after one event of a running execution. */
export function apply(outputs: Output[], { event, data }: ServerEvent): Output[] {
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
    return outputs.map((each) => (each.display_id === data.display_id ? { ...each, data: data.data } : each));
  }
  if (event === "error") return [...outputs, { output_type: "error", ename: data.name, evalue: data.value, traceback: data.traceback }];
  if (event === "clear" && !data.wait) return [];
  return outputs;
}
