// Rows of a frame, a series or an array that code holds, a page at a time, under histograms of the columns. The kernel makes
// text of them, between cells.

import { useRef, useState } from "preact/hooks";
import { Problem, useAnswer } from "./answers";
import { ask } from "./api";
import { Paging } from "./paging";

const ROWS = 100;

interface Summary {
  missing: number; minimum: string; maximum: string; counts: number[]; edges: string[]; distinct: number | null;
  frequent: { value: string; count: number }[]; problem: string;
}
interface Rows {
  columns: { name: string; type: string; summary: Summary | null }[]; rows: string[][]; first: number; total: number; wide: number;
  summarized: number; stopped: boolean;
}

export interface BodyProps { id: string; name: string; ended: number; busy: boolean }

export function Waiting({ problem, busy, again }: { problem: string; busy: boolean; again: () => void }) {
  if (problem && busy) return <p class="hint" role="status">Code runs; the kernel shows values between cells.</p>;
  return <Problem text={problem} again={again} />;
}

export function Table({ id, name, ended, busy }: BodyProps) {
  // Where each page begins: one may have fewer rows than were asked for.
  const [starts, setStarts] = useState([0]);
  const first = starts.at(-1)!;
  // Code that runs keeps the kernel from answering: what was seen stays until it has ended.
  const { found, problem, again } = useAnswer((signal) =>
    ask<Rows>("POST", `/v1/sessions/${id}/rows`, { name, first, count: ROWS, timeout_seconds: 30 }, signal), [id, name, first], 0, ended);
  // Rows first: what is in the columns takes longer, and is the same on all pages.
  const seen = useRef(false);
  seen.current ||= found !== null;
  const { found: about } = useAnswer(async (signal) => {
    const asked = { name, count: 1, histograms: true, timeout_seconds: 30 };
    return seen.current ? await ask<Rows>("POST", `/v1/sessions/${id}/rows`, asked, signal) : null;
  }, [id, name, seen.current], 0, ended);
  const step = (way: number) => {
    if (way < 0) setStarts(starts.slice(0, -1));
    else if (found) setStarts([...starts, first + found.rows.length]);
  };
  return (
    <>
      <Waiting problem={problem} busy={busy} again={again} />
      {found && (
        <div class="preview-body" tabIndex={0} role="group" aria-label="Rows">
          <Paging from={first} shown={found.rows.length} of={found.total} onPage={step}>
            {found.wide > found.columns.length && `, the first ${found.columns.length} of ${found.wide.toLocaleString()} columns`}
            {about && about.summarized > 0 && about.summarized < about.total && `; histograms of ${about.summarized.toLocaleString()} rows, evenly chosen`}
            {about?.stopped && "; there was no time for those of the last columns"}
          </Paging>
          <table class="list">
            <thead>
              <tr>
                <th scope="col"><span class="hidden">Label</span></th>
                {found.columns.map((each, at) => <th scope="col" key={at} class={isNumeric(each.type) ? "number" : ""}>{each.name}<br /><span class="kind">{each.type}</span><Spread of={about?.columns[at]?.summary} /></th>)}
              </tr>
            </thead>
            <tbody>
              {found.rows.map(([label, ...cells], row) => (
                <tr key={first + row}>
                  <th scope="row">{label}</th>
                  {cells.map((cell, at) => <td key={at} class={isNumeric(found.columns[at]!.type) ? "number" : ""}>{cell}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** What is in a column, as bars: of numbers and times by size, of other values the most frequent. Its place is there before it. */
function Spread({ of }: { of: Summary | null | undefined }) {
  if (!of) return <div class="spread" />;
  if (of.problem) return <div class="spread kind" title={of.problem}>no histogram</div>;
  const bars = of.frequent.length > 0 ? of.frequent.map(({ value, count }) => ({ count, said: value }))
    : of.counts.map((count, at) => ({ count, said: `${of.edges[at]} to ${of.edges[at + 1]}` }));
  const top = Math.max(1, ...bars.map(({ count }) => count));
  const what = of.distinct !== null ? `${of.distinct.toLocaleString()} different` : of.minimum && `${short(of.minimum)} to ${short(of.maximum)}`;
  const said = [what, of.missing > 0 && `${of.missing.toLocaleString()} missing`].filter(Boolean).join(", ") || "no values";
  return (
    <div class="spread kind">
      <svg viewBox={`0 0 ${Math.max(bars.length, 1)} 1`} preserveAspectRatio="none" role="img" aria-label={of.distinct === null ? `Histogram: ${said}` : `Most frequent: ${bars.map((bar) => `${bar.said} ${bar.count}`).join(", ")}`}>
        {bars.map(({ count, said: bar }, at) => (
          <rect key={at} x={at + 0.05} width={0.9} y={1 - count / top} height={count / top}><title>{`${bar}: ${count.toLocaleString()}`}</title></rect>
        ))}
      </svg>
      <div title={said}>{said}</div>
    </div>
  );
}

/** A number with the digits that are of use below a picture, a time without midnight; the bars say them in full. */
function short(text: string): string {
  return /^-?\d+\.\d|e[+-]\d+$/.test(text) ? String(Number(Number(text).toPrecision(5))) : text.replace("T00:00:00", "");
}

function isNumeric(type: string): boolean {
  return /^(u?int|float|complex|Int|UInt|Float)\d*/.test(type);
}
