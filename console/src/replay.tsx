// A replay as it goes on: each cell as it was recorded and as it came out, with the verdict on it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Problem, useAct } from "./answers";
import { ask, download, follow } from "./api";
import { AGAIN_SECONDS, useExecutions } from "./executions";
import { Pair, Some, type Judgement } from "./pairs";
import { duration } from "./time";

interface Verdict { number: number; id: string; verdict: string; why: string; diff: string; status: string | null; execution_id: string | null; seconds: number | null }
interface Replay {
  id: string; status: "running" | "done" | "stopped" | "failed"; session_id: string | null; cells: number; of: string | null;
  started_at: string; ended_at: string | null; verdicts: Verdict[]; same: boolean;
  session_live: boolean; error: { code: string; message: string } | null;
}

const GOOD = ["same", "new"];
const OPEN = ["cannot_tell", "not_deterministic", "not_run"];
const WORDS: Record<string, string> = {
  same: "same", different: "different", not_deterministic: "never the same", cannot_tell: "cannot tell", failed: "failed",
  needs_hidden_state: "needs hidden state", timed_out: "timed out", not_run: "not run", new: "new",
};

const NAMES = ["Recorded", "Replayed"] as const;

function judgementOf({ verdict, why, diff }: Verdict): Judgement {
  const good = GOOD.includes(verdict);
  return { mark: good ? "live" : OPEN.includes(verdict) ? "busy" : "bad", verdict: WORDS[verdict] ?? verdict, why, diff, differs: !good };
}

/** The replay, as its events say how it goes on. */
function useReplay(id: string) {
  const [replay, setReplay] = useState<Replay | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    async function look(): Promise<boolean> {
      const found = await ask<Replay>("GET", `/v1/replays/${id}`, undefined, stop.signal);
      setReplay(found);
      setProblem("");
      return found.status === "running";
    }
    async function watch(): Promise<void> {
      for (let failures = 0; !stop.signal.aborted;) {
        try {
          if (!await look()) return;
          for await (const { event, data } of follow(`/v1/replays/${id}/events`, stop.signal)) {
            failures = 0;
            if (event === "verdict") setReplay((known) => known && { ...known, verdicts: judge(known.verdicts, data) });
            else if (event !== "cell") await look();
          }
        } catch (error) {
          if (stop.signal.aborted) return;
          if ((error as { status?: number }).status === 404) { setProblem("There is no such replay: it ended a while ago, or the service has started again since."); return; }
          setProblem(`${(error as Error).message} Trying again.`);
        }
        await new Promise((done) => setTimeout(done, 1000 * AGAIN_SECONDS[Math.min(failures++, AGAIN_SECONDS.length - 1)]!));
      }
    }
    void watch();
    return () => stop.abort();
  }, [id]);
  return { replay, problem };
}

/** A second run may give a better verdict on a cell. */
function judge(verdicts: Verdict[], verdict: Verdict): Verdict[] {
  return verdicts.some((each) => each.id === verdict.id) ? verdicts.map((each) => (each.id === verdict.id ? verdict : each)) : [...verdicts, verdict];
}

export function ReplayPage({ id, may }: { id: string; may: boolean }) {
  const { replay, problem } = useReplay(id);
  const recorded = useExecutions(replay?.of ?? "", true);
  const replayed = useExecutions(replay?.session_id ?? "", true);
  const records = useMemo(() => new Map([...recorded.executions, ...replayed.executions].map((each) => [each.id, each])), [recorded.executions, replayed.executions]);
  const [only, setOnly] = useState(false);
  const { doing, failed, act } = useAct();
  const shown = (replay?.verdicts ?? []).filter((each) => !only || !GOOD.includes(each.verdict));
  useEffect(() => { document.title = "Replay · Sandcell"; }, []);
  return (
    <section aria-label="Replay" class="page">
      <div class="bar">
        <a href={replay?.of ? `#/sessions/${replay.of}` : "#/"} class="back" aria-label="To the session">←</a>
        <h1>Replay</h1>
        {replay && <Progress replay={replay} />}
        <span class="grow" />
        <label><input type="checkbox" checked={only} onChange={(event) => setOnly(event.currentTarget.checked)} /> Only what differs</label>
        {replay?.session_live && <a href={`#/sessions/${replay.session_id}`}>Its session</a>}
        {replay && replay.status !== "running" && (
          <button type="button" disabled={doing} onClick={() => act(() => download(`/v1/replays/${id}/notebook`, "replay.ipynb"))}>Notebook</button>
        )}
        {replay?.status === "running" && may && (
          <button type="button" class="danger" disabled={doing} onClick={() => act(() => ask("DELETE", `/v1/replays/${id}`))}>Stop</button>
        )}
      </div>
      <Problem text={problem || failed || recorded.problem || replayed.problem} />
      {replay?.error && <p class="problem">{replay.error.message}</p>}
      <div class="scroll pairs" tabIndex={0} role="group" aria-label="Cells as recorded and as replayed">
        <div class="sides titles">{NAMES.map((each) => <h2 key={each}>{each}</h2>)}</div>
        {replay && shown.length === 0 && <p class="empty">{replay.status === "running" ? "The first verdict comes as soon as its cell has run." : only ? "Nothing differs." : "There was nothing to run."}</p>}
        <Some pairs={shown.map((each) => (
          <Pair key={each.id} one={records.get(each.id)} other={each.execution_id ? records.get(each.execution_id) : undefined}
            number={each.number} names={NAMES} {...judgementOf(each)} />
        ))} />
      </div>
    </section>
  );
}

function Progress({ replay }: { replay: Replay }) {
  const done = replay.verdicts.length;
  const counted = new Map<string, number>();
  for (const { verdict } of replay.verdicts) counted.set(verdict, (counted.get(verdict) ?? 0) + 1);
  const counts = [...counted].map(([name, count]) => `${count} ${WORDS[name] ?? name}`).join(", ");
  if (replay.status === "running") {
    return <span class="hint" role="status"><progress max={replay.cells} value={done} aria-label="Cells judged" /> {done} of {replay.cells} cells{counts && `: ${counts}`}</span>;
  }
  const took = replay.ended_at ? ` in ${duration(Date.parse(replay.ended_at) - Date.parse(replay.started_at))}` : "";
  return (
    <span role="status" class={replay.same ? "state live" : "state bad"}>
      {replay.status === "done" ? (replay.same ? "All the same" : "Not the same") : replay.status === "stopped" ? "Stopped" : "Came to no end"}{took}
      {counts && `: ${counts}`}
    </span>
  );
}
