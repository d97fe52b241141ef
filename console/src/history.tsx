// What cells did to a file, and what of that can be looked at: the record has the hash of each version, its content is kept
// where the file is as that cell left it, or by a checkpoint.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { all, Problem, useAnswer } from "./answers";
import { isFileOf, read, type Execution, type Failure } from "./api";
import { nameCell } from "./code";
import { Marked, markLines } from "./pairs";
import { size, useNow, When } from "./time";

const MOST_BYTES = 500_000;
/** So long it takes at most until it is known what a cell did to files. */
const LOOKED_MILLISECONDS = 20_000;
/** So many changes show, the last ones; those before them are asked for. */
const CHANGES = 50;

interface Checkpoint { id: string; created_at: string; cell: string | null }
/** `key` is empty of the file as it is now. */
interface Version { key: string; name: string; address: string }
/** `text` is null of what is not text, or too long; `sha256` where the browser can say it. */
interface Content { text: string | null; why: string; sha256: string | null }
interface Change { execution: Execution; change: "added" | "changed" | "removed"; size: number | null; sha256: string | null }

/** `executions` are the last ones; there are so many `earlier`, which `onEarlier` has listed. */
export interface HistoryProps { path: string; address: string; session: string; executions: Execution[]; earlier: number; onEarlier: () => void }

async function load(address: string, signal: AbortSignal): Promise<Content> {
  let found;
  try {
    found = await read(address, MOST_BYTES, signal);
  } catch (error) {
    if ((error as Failure).status === 404) return { text: "", why: "it was not there", sha256: null };
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

/** By digest the one checkpoint that may have it: the first that was made after a cell left it, and before the next change. */
function findKeepers(changes: Change[], checkpoints: Checkpoint[]): Map<string, Checkpoint> {
  const found = new Map<string, Checkpoint>();
  changes.forEach(({ execution, sha256 }, at) => {
    const until = changes[at + 1]?.execution.started_at;
    const first = checkpoints.find((each) => execution.ended_at && each.created_at >= execution.ended_at);
    if (sha256 && first && (!until || first.created_at < until)) found.set(sha256, first);
  });
  return found;
}

export function History({ path, address, session, executions, earlier, onEarlier }: HistoryProps) {
  const now = useNow(15);
  const [most, setMost] = useState(CHANGES);
  useEffect(() => onEarlier(), [session]);
  const changes = useMemo(() => executions.flatMap((execution): Change[] => {
    const found = execution.provenance?.files?.find((each) => each.path === path);
    return found ? [{ execution, ...found }] : [];
  }), [executions, path]);
  const shown = changes.slice(-most);
  const last = changes.at(-1)?.execution.id ?? "";
  const newest = executions.filter((each) => each.started_at && each.ended_at).at(-1);
  const unknown = newest && !newest.provenance?.files && !newest.provenance?.files_unknown && now - Date.parse(newest.ended_at!) < LOOKED_MILLISECONDS;

  const { found: checkpoints, problem, again } = useAnswer((signal) => all<Checkpoint>(`/v1/sessions/${session}/checkpoints?limit=100`, signal), [session], 0, last);
  const current = useAnswer((signal) => load(address, signal), [address], 0, last);
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  const addressIn = (id: string) => `/v1/sessions/${session}/checkpoints/${id}/files/${encoded}`;
  const nameOf = ({ cell }: Checkpoint) =>
    `Checkpoint after ${cell ? nameCell(executions.find((one) => one.id === cell) ?? { id: cell, cell: null }) : "the start"}`;
  const keepers = useMemo(() => findKeepers(changes, checkpoints ?? []), [changes, checkpoints]);
  const asked = shown.flatMap(({ sha256 }) => (sha256 !== null && keepers.has(sha256) ? [`${keepers.get(sha256)!.id} ${sha256}`] : []));
  // What a checkpoint has stays as it is; null: it has no digest of it.
  const known = useRef(new Map<string, boolean | null>());
  const { found: kept, problem: untold } = useAnswer(async (signal) => {
    await Promise.all(asked.filter((each) => !known.current.has(each)).map(async (each) => {
      const [id, sha256] = each.split(" ") as [string, string];
      known.current.set(each, await isFileOf(addressIn(id), sha256, signal));
    }));
    return new Map(known.current);
  }, [session, path], 0, asked.join());

  function whereabouts({ execution, sha256 }: Change): string {
    if (sha256 !== null && sha256 === current.found?.sha256) return "as it is now";
    const keeper = sha256 === null ? undefined : keepers.get(sha256);
    const told = keeper && kept?.get(`${keeper.id} ${sha256}`);
    if (told) return nameOf(keeper).toLowerCase();
    if (keeper && told === undefined) return "";
    const mayBe = told === null || sha256 === null || (execution.id === last && current.found?.sha256 === null);
    return mayBe ? "whether it is kept cannot be told here" : "content not kept";
  }
  const versions: Version[] = [
    ...(checkpoints ?? []).map((each) => ({ key: each.id, name: nameOf(each), address: addressIn(each.id) })), { key: "", name: "As it is now", address }];
  return (
    <section class="history" aria-label="What cells did to it">
      <Problem text={problem || current.problem || untold} again={() => { again(); current.again(); }} />
      {earlier > 0 && <p class="hint" role="status">{earlier.toLocaleString()} earlier cells are still to be looked at.</p>}
      {unknown && <p class="hint" role="status">What the last cell did to files is being found out.</p>}
      {changes.length === 0 && earlier === 0 && !unknown && <p class="hint">No cell of this session has changed it.</p>}
      {shown.length < changes.length && (
        <p><button type="button" onClick={() => setMost(most + CHANGES)}>{(changes.length - shown.length).toLocaleString()} earlier changes</button></p>
      )}
      <ul class="plain">
        {shown.map((each) => (
          <li key={each.execution.id}>
            {nameCell(each.execution, "Cell")} {each.change} it{each.execution.ended_at && <> <When time={each.execution.ended_at} now={now} /></>}
            {each.change !== "removed" && <>: {each.size !== null && size(each.size)} {each.sha256 ? <code title={`SHA-256 ${each.sha256}`}>{each.sha256.slice(0, 12)}</code> : "not hashed"}
              {checkpoints && current.found && <span class="hint"> {whereabouts(each)}</span>}</>}
          </li>
        ))}
      </ul>
      {checkpoints?.length === 0 && <p class="note">The record has a hash of each version, not what was in it: only a checkpoint keeps that. None stands in this session, so there is nothing to compare with. <code>sandcell checkpoint new</code> makes one; <code>checkpoint_every</code> makes them by itself.</p>}
      {versions.length > 1 && <Comparison versions={versions} current={current.found} />}
    </section>
  );
}

/** What is compared is read, and nothing else. */
function Comparison({ versions, current }: { versions: Version[]; current: Content | null }) {
  const [keys, setKeys] = useState<[string, string]>([versions.at(-2)!.key, ""]);
  const [one, other] = keys.map((key) => versions.find((each) => each.key === key) ?? versions.at(-1)!) as [Version, Version];
  const before = useContent(one, current);
  const after = useContent(other, current);
  const choose = (at: 0 | 1, label: string) => (
    <label>{label} <select value={keys[at]} onChange={(event) => { const value = event.currentTarget.value; setKeys(at === 0 ? [value, keys[1]] : [keys[0], value]); }}>
      {versions.map((each) => <option key={each.key} value={each.key}>{each.name}</option>)}
    </select></label>
  );
  return (
    <>
      <p class="row">{choose(0, "From")} {choose(1, "to")}</p>
      <Problem text={before.problem || after.problem} again={() => { before.again(); after.again(); }} />
      {before.found && after.found && <Difference names={[one.name, other.name]} contents={[before.found, after.found]} />}
    </>
  );
}

function useContent({ key, address }: Version, current: Content | null) {
  const answer = useAnswer(async (signal) => (key ? await load(address, signal) : null), [address]);
  return key ? answer : { ...answer, found: current };
}

function Difference({ names, contents: [one, other] }: { names: [string, string]; contents: [Content, Content] }) {
  const lines = useMemo(() => (one.text === null || other.text === null ? null : [one, other].map((each) => each.text!.replace(/\n$/, "").split("\n"))), [one, other]);
  const marks = useMemo(() => lines && markLines(lines[0]!, lines[1]!), [lines]);
  if (!lines || !marks) {
    const same = one.sha256 && one.sha256 === other.sha256;
    return <p class="hint">{same ? "They are the same." : `They cannot be compared line by line: ${(one.text === null ? one : other).why}.`}</p>;
  }
  const changed = marks[0].size + marks[1].size;
  return (
    <>
      <p class="hint" role="status">{changed === 0 ? "Nothing differs." : `${marks[0].size} lines went, ${marks[1].size} came.`}</p>
      <div class="sides">
        {[one, other].map((each, at) => (
          <div key={at} class="side" role="group" aria-label={names[at]}>
            {each.why ? <p class="hint">{each.why}</p> : <Marked lines={lines[at]!} marks={marks[at]!} side={at === 0 ? "before" : "after"} />}
          </div>
        ))}
      </div>
    </>
  );
}
