// Two sessions next to each other: a session and its fork, or any two.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Problem, useAnswer } from "./answers";
import { ask, type Execution, type Forked, type Session } from "./api";
import { useExecutions } from "./executions";
import { isSameCode, markLines, Pair, showTheSame, Some } from "./pairs";

interface Row { place: number; one?: Execution; other?: Execution; verdict: string; differs: boolean }

/** How many of a session's cells a fork of it does not have: those before the ones that ran again in it. */
function countBefore(executions: Execution[], fork: Forked): number {
  const began = Date.parse(fork.as_of) + 1; // both are rounded, the one from the other
  const known = executions.filter((each) => each.ended_at !== null && Date.parse(each.ended_at) <= began).length;
  return Math.max(0, known - fork.cells);
}

const nameCode = ({ kind, code }: Execution) => `${kind} ${code}`;

/**
 * Which cells are counterparts: in the same order, those of the same code, as many as can be. What is between two such
 * pairs stands side by side as far as it goes. Of a fork and its original those before the fork's first are the original's alone.
 */
function align(ones: Execution[], others: Execution[], before: [number, number]): [Execution?, Execution?][] {
  const rows: [Execution?, Execution?][] = [...ones.slice(0, before[0]).map((each): [Execution] => [each]),
    ...others.slice(0, before[1]).map((each): [undefined, Execution] => [undefined, each])];
  const [left, right] = [ones.slice(before[0]), others.slice(before[1])];
  const [alone, other] = markLines(left.map(nameCode), right.map(nameCode));
  for (let at = 0, its = 0; at < left.length || its < right.length;) {
    const both = !alone.has(at) && !other.has(its);
    rows.push([both || alone.has(at) ? left[at] : undefined, both || other.has(its) ? right[its] : undefined]);
    if (both) { at += 1; its += 1; continue; }
    at += alone.has(at) ? 1 : 0;
    its += other.has(its) ? 1 : 0;
  }
  return rows;
}

function pair(ones: Execution[], others: Execution[], before: [number, number]): Row[] {
  return align(ones, others, before).map(([one, other], at): Row => {
    const place = at + 1;
    if (at < before[0] + before[1]) return { place, one, other, verdict: "before the fork", differs: false };
    if (!one || !other) return { place, one, other, verdict: one ? "only on the left" : "only on the right", differs: true };
    if (!isSameCode(one, other)) return { place, one, other, verdict: "other code", differs: true };
    if (one.dropped || other.dropped) return { place, one, other, verdict: "too much output to compare here", differs: true };
    if (!one.ended_at || !other.ended_at) return { place, one, other, verdict: "runs", differs: false };
    const same = showTheSame(one, other);
    return { place, one, other, verdict: same ? "same" : "different", differs: !same };
  });
}

/** Its number in the notebook of either, where that is not the same in both. */
function numberOf({ one, other }: Row): string {
  const numbers = [one, other].flatMap((each) => (each ? [each.cell ?? "\u2013"] : []));
  return [...new Set(numbers)].join(" | ");
}

function useSession(id: string) {
  return useAnswer((signal) => ask<Session>("GET", `/v1/sessions/${id}`, undefined, signal), [id], 20);
}

export function Compare({ left, right }: { left: string; right: string }) {
  const ones = useExecutions(left, true);
  const others = useExecutions(right, true);
  const [one, other] = [useSession(left), useSession(right)];
  const [only, setOnly] = useState(false);
  const [isFork, isOriginal] = [one.found?.from?.session === right, other.found?.from?.session === left];
  const rows = useMemo(() => pair(ones.executions, others.executions, [
    isOriginal ? countBefore(ones.executions, other.found!.from!) : 0, isFork ? countBefore(others.executions, one.found!.from!) : 0,
  ]), [ones.executions, others.executions, isFork, isOriginal]);
  const differing = rows.filter((each) => each.differs).length;
  const loaded = ones.loaded && others.loaded && [one, other].every((each) => each.found !== null || each.problem !== "");
  const names = useMemo(() => [one.found?.name ?? "The one", other.found?.name ?? "The other"] as const, [one.found?.name, other.found?.name]);
  const fork = [one.found, other.found].find((each) => each?.from?.session === left || each?.from?.session === right);
  useEffect(() => { document.title = "Compare · Sandcell"; }, []);
  return (
    <section aria-label="Compare" class="page">
      <div class="bar">
        <a href={`#/sessions/${left}`} class="back" aria-label="To the session on the left">←</a>
        <h1>Compare</h1>
        {loaded && <span class="hint" role="status">{rows.length} cells, {differing === 0 ? "nothing differs" : `${differing} ${differing === 1 ? "differs" : "differ"}`}</span>}
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
        <Some pairs={rows.filter((each) => each.differs || !only).map((each) => (
          <Pair key={each.place} {...each} number={numberOf(each)} mark={each.differs ? "bad" : "live"} names={names} />
        ))} />
      </div>
    </section>
  );
}
