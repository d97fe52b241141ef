// What cells did to a file, and what of that can be looked at: the record has the hash of each version, its content is kept
// where the file is as that cell left it, or by a checkpoint.

import { useEffect, useMemo, useState } from "preact/hooks";
import { all, Problem, useAnswer } from "./answers";
import { read, type Execution, type Failure } from "./api";
import { Marked, markLines } from "./pairs";
import { size, useNow, When } from "./time";

const MOST_BYTES = 500_000;
/** So long it takes at most until it is known what a cell did to files. */
const LOOKED_MILLISECONDS = 20_000;

interface Checkpoint { id: string; created_at: string; cell: string | null }
interface Version { key: string; name: string; address: string; time: string }
/** `text` is null of what is not text, or too long; `sha256` where the browser can say it. */
interface Content { text: string | null; why: string; sha256: string | null }
interface Change { execution: Execution; number: number; change: "added" | "changed" | "removed"; size: number | null; sha256: string | null }

/** `executions` are the last ones; there are so many `earlier`, which `onEarlier` has listed. */
export interface HistoryProps { path: string; address: string; session: string; executions: Execution[]; earlier: number; onEarlier: () => void }

const NOT_THERE = "it was not there";

function numberOf(execution: Execution | undefined): string {
  return execution?.execution_count == null ? "" : `[${execution.execution_count}]`;
}

async function load(address: string, signal: AbortSignal): Promise<Content> {
  let found;
  try {
    found = await read(address, MOST_BYTES, signal);
  } catch (error) {
    if ((error as Failure).status === 404) return { text: "", why: NOT_THERE, sha256: null };
    throw error;
  }
  if (!found.whole) return { text: null, why: `it is larger than ${size(MOST_BYTES)}`, sha256: null };
  // Only for pages of HTTPS and of this machine a browser hashes anything.
  const digest = globalThis.crypto?.subtle && await crypto.subtle.digest("SHA-256", found.content);
  const sha256 = digest ? [...new Uint8Array(digest)].map((each) => each.toString(16).padStart(2, "0")).join("") : null;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(found.content);
    return text.includes("\0") ? { text: null, why: "it is not text", sha256 } : { text, why: "", sha256 };
  } catch {
    return { text: null, why: "it is not text", sha256 };
  }
}

export function History({ path, address, session, executions, earlier, onEarlier }: HistoryProps) {
  const now = useNow(15);
  useEffect(() => onEarlier(), [session]);
  const changes = useMemo(() => executions.flatMap((execution): Change[] => {
    const found = execution.provenance?.files?.find((each) => each.path === path);
    return found ? [{ execution, number: 0, ...found }] : [];
  }), [executions, path]);
  const last = changes.at(-1)?.execution.id ?? "";
  const newest = executions.filter((each) => each.started_at && each.ended_at).at(-1);
  const unknown = newest && !newest.provenance?.files && !newest.provenance?.files_unknown && now - Date.parse(newest.ended_at!) < LOOKED_MILLISECONDS;
  const { found, problem, again } = useAnswer(async (signal) => {
    const checkpoints = await all<Checkpoint>(`/v1/sessions/${session}/checkpoints?limit=100`, signal);
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    const versions: Version[] = [
      ...checkpoints.map((each): Version => ({
        key: each.id, time: each.created_at, address: `/v1/sessions/${session}/checkpoints/${each.id}/files/${encoded}`,
        name: `Checkpoint after ${each.cell ? `cell ${numberOf(executions.find((one) => one.id === each.cell)) || each.cell.slice(0, 8)}` : "the start"}`,
      })),
      { key: "", name: "As it is now", time: "", address }];
    const contents = await Promise.all(versions.map((each) => load(each.address, signal)));
    return versions.map((each, at) => ({ ...each, content: contents[at]! }));
  }, [session, path, address], 0, last);
  // A version that is too large, or on a page on which the browser hashes nothing, may be any of the cells'.
  const known = found?.every((each) => each.content.sha256 !== null || each.content.why === NOT_THERE);
  const nobody = known ? "content not kept" : "whether it is kept cannot be told here";
  const keeper = (change: Change) => found?.find((each) => change.sha256 !== null && each.content.sha256 === change.sha256);
  return (
    <section class="history" aria-label="What cells did to it">
      <Problem text={problem} again={again} />
      {earlier > 0 && <p class="hint" role="status">{earlier.toLocaleString()} earlier cells are still to be looked at.</p>}
      {unknown && <p class="hint" role="status">What the last cell did to files is being found out.</p>}
      {changes.length === 0 && earlier === 0 && !unknown && <p class="hint">No cell of this session has changed it.</p>}
      <ul class="plain">
        {changes.map((each) => (
          <li key={each.execution.id}>
            Cell {numberOf(each.execution) || each.execution.id.slice(0, 8)} {each.change} it{each.execution.ended_at && <> <When time={each.execution.ended_at} now={now} /></>}
            {each.change !== "removed" && <>: {each.size !== null && size(each.size)} {each.sha256 ? <code title={`SHA-256 ${each.sha256}`}>{each.sha256.slice(0, 12)}</code> : "not hashed"}
              {found && <span class="hint"> {keeper(each) ? keeper(each)!.name.toLowerCase() : nobody}</span>}</>}
          </li>
        ))}
      </ul>
      {found && found.length === 1 && <p class="note">The record has a hash of each version, not what was in it: only a checkpoint keeps that. None stands in this session, so there is nothing to compare with. <code>sandcell checkpoint new</code> makes one; <code>checkpoint_every</code> makes them by itself.</p>}
      {found && found.length > 1 && <Comparison versions={found} />}
    </section>
  );
}

function Comparison({ versions }: { versions: (Version & { content: Content })[] }) {
  const [keys, setKeys] = useState<[string, string]>([versions.at(-2)!.key, ""]);
  const [one, other] = keys.map((key) => versions.find((each) => each.key === key) ?? versions.at(-1)!) as [typeof versions[0], typeof versions[0]];
  const choose = (at: 0 | 1, label: string) => (
    <label>{label} <select value={keys[at]} onChange={(event) => { const value = event.currentTarget.value; setKeys(at === 0 ? [value, keys[1]] : [keys[0], value]); }}>
      {versions.map((each) => <option key={each.key} value={each.key}>{each.name}</option>)}
    </select></label>
  );
  return (
    <>
      <p class="row">{choose(0, "From")} {choose(1, "to")}</p>
      <Difference one={one} other={other} />
    </>
  );
}

function Difference({ one, other }: { one: Version & { content: Content }; other: Version & { content: Content } }) {
  const texts = [one.content.text, other.content.text];
  const lines = useMemo(() => (texts[0] === null || texts[1] === null ? null : texts.map((each) => each!.replace(/\n$/, "").split("\n"))), texts);
  const marks = useMemo(() => lines && markLines(lines[0]!, lines[1]!), [lines]);
  if (!lines || !marks) {
    const binary = [one, other].find((each) => each.content.text === null)!;
    const same = one.content.sha256 && one.content.sha256 === other.content.sha256;
    return <p class="hint">{same ? "They are the same." : `They cannot be compared line by line: ${binary.content.why}.`}</p>;
  }
  const changed = marks[0].size + marks[1].size;
  return (
    <>
      <p class="hint" role="status">{changed === 0 ? "Nothing differs." : `${marks[0].size} lines went, ${marks[1].size} came.`}</p>
      <div class="sides">
        {[one, other].map((each, at) => (
          <div key={at} class="side" role="group" aria-label={each.name}>
            {each.content.why ? <p class="hint">{each.content.why}</p> : <Marked lines={lines[at]!} marks={marks[at]!} side={at === 0 ? "before" : "after"} />}
          </div>
        ))}
      </div>
    </>
  );
}
