// A Parquet file as a table. It is decoded in a document of an origin of its own, which asks for the parts that it needs: those
// of the columns that show, in the row groups that the rows are in. What that says is taken as text and numbers alone.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./answers";
import { readPart } from "./api";
import { addressOf } from "./outputs";
import { Paging } from "./paging";

const ROWS = 200;
/** For one page of rows. A row group is read whole, and some writers put a million rows into each. */
const MOST_BYTES = 64_000_000;
const MOST_SECONDS = 60;

interface Rows { columns: { name: string; type: string }[]; rows: string[][]; first: number; total: number; wide: number }

/** What a document says that has read what a sandbox wrote; null: it is not as it should be. */
function readRows(data: any): Rows | null {
  const texts = (row: unknown): row is string[] => Array.isArray(row) && row.every((each) => typeof each === "string");
  const columns: unknown = data?.columns;
  const rows: unknown = data?.rows;
  if (!Array.isArray(columns) || !Array.isArray(rows) || !rows.every(texts) || rows.length > ROWS) return null;
  const [first, total, wide] = [Number(data.first), Number(data.total), Number(data.wide)];
  return { columns: columns.map((each) => ({ name: String(each?.name), type: String(each?.type) })), rows, first, total, wide };
}

export function Parquet({ address, change }: { address: string; change: string }) {
  const [first, setFirst] = useState(0);
  const [found, setFound] = useState<Rows | null>(null);
  const [problem, setProblem] = useState("");
  const [round, setRound] = useState(0);
  const frame = useRef<HTMLIFrameElement>(null);
  const again = () => { setProblem(""); setRound(round + 1); };
  // Before the browser goes on, so that the frame is heard that says soon that it is ready.
  useLayoutEffect(() => {
    if (problem) return;
    const stop = new AbortController();
    const say = (message: object, moved: Transferable[] = []) => frame.current?.contentWindow?.postMessage(message, "*", moved);
    const fail = (said: string) => { if (!stop.signal.aborted) { setProblem(said); stop.abort(); } };
    const timer = setTimeout(() => fail(`It took more than ${MOST_SECONDS} seconds to read.`), MOST_SECONDS * 1000);
    let left = MOST_BYTES;
    async function answer(part: number, start: number, end: number): Promise<void> {
      left -= end - start;
      if (left < 0) { fail(`Its rows are in groups of more than ${MOST_BYTES / 1e6} MB. A cell reads it: pandas.read_parquet and Variables show its rows.`); return; }
      const { content } = await readPart(address, start, end, stop.signal);
      say({ part, content: content.buffer }, [content.buffer]);
    }
    const begin = async () => {
      const { size } = await readPart(address, 0, 4, stop.signal);
      say({ size, first, count: ROWS });
    };
    const hear = ({ source, data }: MessageEvent) => {
      if (source === null || source !== frame.current?.contentWindow) return;
      const failed = (error: Error) => { if (error.name !== "AbortError") fail(error.message); };
      if (data?.ready === true) begin().catch(failed);
      if (Number.isInteger(data?.part) && data.start >= 0 && data.end > data.start) answer(data.part, data.start, data.end).catch(failed);
      const rows = readRows(data);
      if (rows) { clearTimeout(timer); setFound(rows); }
      if (typeof data?.problem === "string") fail(`It could not be read as Parquet: ${data.problem}`);
    };
    stop.signal.addEventListener("abort", () => { clearTimeout(timer); removeEventListener("message", hear); });
    addEventListener("message", hear);
    return () => stop.abort();
  }, [address, change, first, round, problem]);
  return (
    <>
      <Problem text={problem} again={again} />
      {/* A new document for each page of rows: what one file or one page has done to it is gone with it. */}
      {!problem && <iframe key={`${address} ${change} ${first} ${round}`} ref={frame} hidden title="Reader of Parquet" sandbox="allow-scripts" src={addressOf("parquet")} />}
      {!found && !problem && <p class="hint" role="status">Loading</p>}
      {found && <Table found={found} onPage={(step) => setFirst(Math.max(0, first + step * ROWS))} />}
    </>
  );
}

function Table({ found, onPage }: { found: Rows; onPage: (step: number) => void }) {
  const numeric = found.columns.map(({ type }) => /^(u?int\d*|integer|float\d*|double|decimal)$/.test(type));
  return (
    <>
      <Paging from={found.first} shown={found.rows.length} of={found.total} onPage={onPage}>
        {found.wide > found.columns.length && `, the first ${found.columns.length} of ${found.wide.toLocaleString()} columns`}
      </Paging>
      <table class="list">
        <thead><tr><th scope="col" class="number">Row</th>{found.columns.map(({ name, type }, at) => <th scope="col" key={at} class={numeric[at] ? "number" : ""}>{name}<br /><span class="kind">{type}</span></th>)}</tr></thead>
        <tbody>
          {found.rows.map((row, at) => (
            <tr key={found.first + at}><th scope="row" class="number">{(found.first + at + 1).toLocaleString()}</th>{row.map((each, column) => <td key={column} class={numeric[column] ? "number" : ""}>{each}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
