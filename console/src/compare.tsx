// Two sessions next to each other: a session and its fork, or any two.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Problem, useAnswer } from "./answers";
import { ask, type Execution, type Session } from "./api";
import { useExecutions } from "./executions";
import { Pair, showTheSame } from "./pairs";

interface Row { number: number; one?: Execution; other?: Execution; verdict: string; differs: boolean }

/** Cells are counterparts while their code is the same; from the first that is not, each stands for itself by its place. */
function pair(ones: Execution[], others: Execution[]): Row[] {
  return Array.from({ length: Math.max(ones.length, others.length) }, (_, at) => {
    const [one, other] = [ones[at], others[at]];
    const number = at + 1;
    if (!one || !other) return { number, one, other, verdict: one ? "only on the left" : "only on the right", differs: true };
    if (one.code !== other.code) return { number, one, other, verdict: "other code", differs: true };
    if (one.dropped || other.dropped) return { number, one, other, verdict: "too much output to compare here", differs: true };
    if (!one.ended_at || !other.ended_at) return { number, one, other, verdict: "runs", differs: false };
    const same = showTheSame(one, other);
    return { number, one, other, verdict: same ? "same" : "different", differs: !same };
  });
}

function useSession(id: string) {
  return useAnswer((signal) => ask<Session>("GET", `/v1/sessions/${id}`, undefined, signal), [id], 20);
}

export function Compare({ left, right }: { left: string; right: string }) {
  const ones = useExecutions(left);
  const others = useExecutions(right);
  const [one, other] = [useSession(left), useSession(right)];
  const [only, setOnly] = useState(false);
  const rows = useMemo(() => pair(ones.executions, others.executions), [ones.executions, others.executions]);
  const differing = rows.filter((each) => each.differs).length;
  const loaded = ones.loaded && others.loaded;
  const names: [string, string] = [one.found?.name ?? "The one", other.found?.name ?? "The other"];
  const fork = [one.found, other.found].find((each) => each?.from?.session === left || each?.from?.session === right);
  useEffect(() => { document.title = "Compare · Sandcell"; }, []);
  return (
    <section aria-label="Compare" class="page">
      <div class="bar">
        <a href={`#/sessions/${left}`} class="back" aria-label="To the session on the left">←</a>
        <h1>Compare</h1>
        {loaded && <span class="hint" role="status">{rows.length} cells, {differing === 0 ? "nothing differs" : `${differing} differ`}</span>}
        {fork?.from && <span class="hint">{fork.name} began after cell {fork.from.cell ?? "the last"} of the other</span>}
        <span class="grow" />
        <label><input type="checkbox" checked={only} onChange={(event) => setOnly(event.currentTarget.checked)} /> Only what differs</label>
      </div>
      <Problem text={ones.problem || others.problem} />
      <div class="scroll pairs" tabIndex={0} role="group" aria-label="Cells of both">
        <div class="sides titles">
          <h2><a href={`#/sessions/${left}`}>{names[0]}</a></h2><h2><a href={`#/sessions/${right}`}>{names[1]}</a></h2>
        </div>
        {loaded && rows.length === 0 && <p class="empty">Nothing has run in either.</p>}
        {rows.filter((each) => each.differs || !only).map((each) => (
          <Pair key={each.number} one={each.one} other={each.other} number={each.number} differs={each.differs} names={names}
            verdict={<span class={each.differs ? "state bad" : "state live"}>{each.verdict}</span>} />
        ))}
      </div>
    </section>
  );
}
