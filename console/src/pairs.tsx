// Two runs of a cell next to each other, with what differs marked.

import { Fragment, type VNode } from "preact";
import { memo } from "preact/compat";
import { useMemo, useState } from "preact/hooks";
import { parseLines } from "./ansi";
import type { Execution, Output } from "./api";
import { Code, Exit, explainDeath, Numbers } from "./code";
import { join, merge, Outputs, Spans } from "./outputs";
import { count, duration } from "./time";

/** Lines compared one by one, at most: beyond it all that is between the common ends is marked. */
const MOST_COMPARED = 4_000_000;
const MOST_CHARACTERS = 100_000;

/** The same line may be a shell command in one, and code in the other. */
export function isSameCode(one: Execution, other: Execution): boolean {
  return one.kind === other.kind && one.code === other.code;
}

export function outputsOf(execution: Execution): Output[] {
  return [...execution.outputs, ...execution.late];
}

/** Their ids are others in each run; what they show is in their text, too. */
const WIDGETS = /^application\/vnd\.jupyter\.widget-/;

/** What of an output counts: not when it came, nor how a stream was cut into pieces. */
function essence(outputs: Output[]): string {
  return JSON.stringify(merge(outputs).map(({ output_type: type, name, text, data, ename, evalue }) =>
    [type, name, text === undefined ? null : join(text), data && Object.entries(data).filter(([kind]) => !WIDGETS.test(kind)).sort(), ename, evalue]));
}

/** What each was held against last: pages draw again with each cell that comes. */
const compared = new WeakMap<Execution, { other: Execution; same: boolean }>();

export function showTheSame(one: Execution, other: Execution): boolean {
  const known = compared.get(one);
  if (known?.other === other) return known.same;
  const same = one.status === other.status && one.exit_code === other.exit_code && essence(outputsOf(one)) === essence(outputsOf(other));
  compared.set(one, { other, same });
  return same;
}

function textOf(outputs: Output[]): string | null {
  let text = "";
  for (const each of outputs) {
    if (each.output_type === "stream") text += join(each.text);
    else if (each.output_type === "error") text += `${each.ename}: ${each.evalue}\n`;
    else if (each.data && Object.keys(each.data).every((type) => type === "text/plain")) text += `${join(each.data["text/plain"] as string)}\n`;
    else return null;
  }
  return text.length > MOST_CHARACTERS ? null : text;
}

/** Which lines of either have no counterpart in the other, by a longest common subsequence. */
export function markLines(one: string[], other: string[]): [Set<number>, Set<number>] {
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start += 1;
  let cut = 0;
  while (cut < one.length - start && cut < other.length - start && one[one.length - 1 - cut] === other[other.length - 1 - cut]) cut += 1;
  const rows = one.length - start - cut;
  const columns = other.length - start - cut;
  const marks: [Set<number>, Set<number>] = [new Set(), new Set()];
  for (let row = 0; row < rows; row += 1) marks[0].add(start + row);
  for (let column = 0; column < columns; column += 1) marks[1].add(start + column);
  if (rows === 0 || columns === 0 || rows * columns > MOST_COMPARED) return marks;
  const width = columns + 1;
  const lengths = new Uint32Array((rows + 1) * width);
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      lengths[row * width + column] = one[start + row] === other[start + column] ? lengths[(row + 1) * width + column + 1]! + 1
        : Math.max(lengths[(row + 1) * width + column]!, lengths[row * width + column + 1]!);
    }
  }
  for (let row = 0, column = 0; row < rows && column < columns;) {
    if (one[start + row] === other[start + column]) { marks[0].delete(start + row); marks[1].delete(start + column); row += 1; column += 1; }
    else if (lengths[(row + 1) * width + column]! >= lengths[row * width + column + 1]!) row += 1;
    else column += 1;
  }
  return marks;
}

/** Lines as a terminal shows them, of which some are marked. */
export function Marked({ lines, marks, side }: { lines: string[]; marks: Set<number>; side: "before" | "after" }) {
  const spans = useMemo(() => parseLines(lines), [lines]);
  return (
    <pre tabIndex={0}>{spans.map((each, at) => marks.has(at)
      ? <mark key={at} class={side}>{each.length ? <Spans of={each} /> : " "}{"\n"}</mark> : <Fragment key={at}><Spans of={each} />{"\n"}</Fragment>)}</pre>
  );
}

export interface Judgement { mark: "live" | "busy" | "bad"; verdict: string; why?: string; diff?: string; differs: boolean }
interface PairProps extends Judgement { one?: Execution; other?: Execution; number: number | string | null; names: readonly [string, string] }

/** Of a cell that one side lacks, that side is empty. Drawn again where one of its values is another: there are thousands. */
export const Pair = memo(function Pair({ one, other, number, mark, verdict, why, diff, differs, names }: PairProps) {
  const sameCode = !one || !other || isSameCode(one, other);
  const texts = differs && one && other && !one.dropped && !other.dropped ? [textOf(outputsOf(one)), textOf(outputsOf(other))] : [null, null];
  const lines = texts[0] !== null && texts[1] !== null ? texts.map((each) => each!.replace(/\n$/, "").split("\n")) : null;
  const marks = lines && markLines(lines[0]!, lines[1]!);
  const side = (execution: Execution | undefined, at: 0 | 1) => (
    <div class="side" role="group" aria-label={names[at]}>
      {!sameCode && execution && <Code of={execution} />}
      {!execution ? <p class="hint">Not there.</p> : execution.dropped ? <p class="hint">Its output is on the session's own page.</p>
        : lines && marks ? <Marked lines={lines[at]!} marks={marks[at]} side={at === 0 ? "before" : "after"} />
          : <Outputs outputs={outputsOf(execution)} />}
      {execution?.death && <p class="sentence">{explainDeath(execution)}</p>}
      {execution?.started_at && execution.ended_at && (
        <p class="hint">{execution.status}, {execution.task !== null ? "in the background" : duration(Date.parse(execution.ended_at) - Date.parse(execution.started_at))} <Exit code={execution.exit_code} /></p>
      )}
    </div>
  );
  const shared = one ?? other;
  return (
    <article class={differs ? "pair differs" : "pair"} aria-label={`Cell ${number ?? ""}`}>
      <div class="head">
        <Numbers number={number} of={shared} />
        {!sameCode ? <span class="hint">The code differs.</span> : shared ? <Code of={shared} /> : <span />}
        <div class="verdict">
          <span class={`state ${mark}`}>{verdict}</span>
          {why && <span class="hint"> {why}</span>}
          {diff && <details><summary>What differs</summary><Diff text={diff} /></details>}
        </div>
      </div>
      {shared && <div class="sides outputs">{side(one, 0)}{side(other, 1)}</div>}
    </article>
  );
});

/** So many are in the page at first, and with each request for more. */
const PAIRS = 200;

export function Some({ pairs }: { pairs: VNode[] }) {
  const [most, setMost] = useState(PAIRS);
  return (
    <>
      {pairs.slice(0, most)}
      {pairs.length > most && <p><button type="button" onClick={() => setMost(most + PAIRS)}>{count(pairs.length - most, "more cell")}</button></p>}
    </>
  );
}

function Diff({ text }: { text: string }) {
  const marks: Record<string, string> = { "-": "before", "+": "after" };
  return (
    <pre class="log" tabIndex={0}>{text.split("\n").map((line, at) => marks[line[0] ?? ""]
      ? <mark key={at} class={marks[line[0]!]}>{line}{"\n"}</mark> : `${line}\n`)}</pre>
  );
}
