// The audit log: who did what, by filters, and how far it is signed.

import { useEffect, useState } from "preact/hooks";
import { Problem, useAct, useAnswer } from "./answers";
import { ask, type Page } from "./api";
import { useNow, When } from "./time";

interface Entry {
  number: number; at: string; kind: string; event: string; allowed: boolean; reason: string; target: string;
  principal: string | null; session_id: string | null; hash: string | null; detail: Record<string, any>;
}
interface Filters { principal: string; event: string; kind: string; session_id: string; error_code: string; allowed: string; since: string; until: string }

const NONE: Filters = { principal: "", event: "", kind: "", session_id: "", error_code: "", allowed: "", since: "", until: "" };
const KINDS = ["api", "egress", "environments", "retention", "audit"];
const A_PAGE = 200;
/** A page of the log looks through so many records that it may have none: as many are asked for before it is said. */
const MOST_PAGES = 20;

function queryOf(filters: Filters): string {
  const query = new URLSearchParams({ limit: String(A_PAGE) });
  for (const [name, value] of Object.entries(filters)) {
    if (value) query.set(name, name === "since" || name === "until" ? new Date(value).toISOString() : value.trim());
  }
  return `/v1/audit?${query}`;
}

export function Audit({ everybody }: { everybody: boolean }) {
  const [filters, setFilters] = useState(NONE);
  const [asked, setAsked] = useState(NONE);
  const [entries, setEntries] = useState<Entry[] | null>(null);
  const [cursor, setCursor] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const [loading, setLoading] = useState(false);
  const now = useNow(15);

  async function load(before: Entry[], from: string | null, signal?: AbortSignal): Promise<void> {
    setLoading(true);
    try {
      const found = [...before];
      let next = from;
      for (let pages = 0; pages < MOST_PAGES && found.length < before.length + A_PAGE; pages += 1) {
        const page: Page<Entry> = await ask("GET", queryOf(asked) + (next ? `&cursor=${encodeURIComponent(next)}` : ""), undefined, signal);
        found.push(...page.items);
        next = page.next_cursor;
        if (next === null) break;
      }
      setEntries(found);
      setCursor(next);
      setProblem("");
    } catch (error) {
      if (!signal?.aborted) setProblem((error as Error).message);
    }
    if (!signal?.aborted) setLoading(false);
  }
  useEffect(() => {
    const stop = new AbortController();
    setEntries(null);
    void load([], null, stop.signal);
    return () => stop.abort();
  }, [asked]);

  return (
    <>
      <FilterForm filters={filters} everybody={everybody} change={setFilters} submit={() => setAsked({ ...filters })} clear={() => { setFilters(NONE); setAsked(NONE); }} />
      {everybody && <Signed />}
      <Problem text={problem} again={() => load(entries ?? [], cursor)} />
      {entries?.length === 0 && <p class="empty">{cursor ? "None of the newest records fits; older ones may." : "No record fits. Use fewer filters."}</p>}
      {entries !== null && entries.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Records">
          <table class="list">
            <thead><tr><th scope="col">Record</th><th scope="col">When</th><th scope="col">Principal</th><th scope="col">Event</th><th scope="col">Outcome</th><th scope="col">What it was about</th></tr></thead>
            <tbody>{entries.map((each) => <Row key={each.number} entry={each} now={now} />)}</tbody>
          </table>
        </div>
      )}
      {cursor !== null && <p class="hint"><button type="button" disabled={loading} onClick={() => load(entries ?? [], cursor)}>{loading ? "Looking" : "Older records"}</button></p>}
    </>
  );
}

interface FormProps { filters: Filters; everybody: boolean; change: (filters: Filters) => void; submit: () => void; clear: () => void }

function FilterForm({ filters, everybody, change, submit, clear }: FormProps) {
  const set = (name: keyof Filters) => (event: { currentTarget: HTMLInputElement | HTMLSelectElement }) => change({ ...filters, [name]: event.currentTarget.value });
  return (
    <form class="bar filters" aria-label="Filters" onSubmit={(event) => { event.preventDefault(); submit(); }}>
      {everybody && <input aria-label="Principal" placeholder="Principal" value={filters.principal} onInput={set("principal")} />}
      <input aria-label="Event" placeholder="Event, as StartSession" value={filters.event} onInput={set("event")} />
      <select aria-label="Kind" value={filters.kind} onChange={set("kind")}>
        <option value="">Every kind</option>
        {KINDS.map((each) => <option key={each} value={each}>{each}</option>)}
      </select>
      <select aria-label="Outcome" value={filters.allowed} onChange={set("allowed")}>
        <option value="">Allowed or refused</option><option value="true">Allowed</option><option value="false">Refused</option>
      </select>
      <input aria-label="Error code" placeholder="Error, as not_found" value={filters.error_code} onInput={set("error_code")} />
      <input aria-label="Session" placeholder="Session's id" value={filters.session_id} onInput={set("session_id")} />
      <label>From <input type="datetime-local" value={filters.since} onInput={set("since")} /></label>
      <label>to <input type="datetime-local" value={filters.until} onInput={set("until")} /></label>
      <button type="submit" class="main">Look</button>
      <button type="button" onClick={clear}>Clear</button>
    </form>
  );
}

interface Verification {
  state: "running" | "whole" | "broken" | "failed"; started_at: string; ended_at: string | null; records: number; first: number | null;
  last: number | null; newest: number; digests: number; problems: { text: string }[]; error: string;
}

/** The service looks at its own chain. It answers at once, and goes on. */
function Verify() {
  const [last, setLast] = useState<Verification | null>(null);
  const { doing, failed, act } = useAct();
  const now = useNow(15);
  const path = "/v1/audit/verification";
  useEffect(() => { ask<Verification>("GET", path).then(setLast, () => undefined); }, []);
  useEffect(() => {
    if (last?.state !== "running") return;
    const timer = setTimeout(() => void act(async () => setLast(await ask<Verification>("GET", path))), 500);
    return () => clearTimeout(timer);
  }, [last]);
  const span = last && last.first !== null ? `records ${last.first} to ${last.last}` : "no record yet";
  return (
    <div role="status">
      <Problem text={failed} />
      {last?.state === "running" && <p class="note">Verifying: {span} of {last.newest} are as they were written.</p>}
      {last?.state === "whole" && <p class="hint">Nothing was changed, removed or added: {span}, {last.digests} signatures; verified <When time={last.ended_at!} now={now} />.</p>}
      {last?.state === "broken" && last.problems.map((each) => <p class="problem" key={each.text}>Not as it was written: {each.text}</p>)}
      {last?.state === "failed" && <p class="problem">It could not be verified: {last.error}</p>}
      <p class="hint"><button type="button" disabled={doing || last?.state === "running"} onClick={() => act(async () => setLast(await ask<Verification>("POST", path)))}>Verify</button></p>
    </div>
  );
}

/** Records are chained, and signed up to a number. */
function Signed() {
  const { found } = useAnswer(async (signal) => (await ask<Page<Entry>>("GET", "/v1/audit?kind=audit&limit=50", undefined, signal)).items, [], 60);
  const now = useNow(30);
  if (!found) return null;
  const broken = found.find((each) => each.event === "chain_broken");
  const dropped = found.find((each) => each.event === "dropped");
  const digest = found.find((each) => each.event === "digest");
  return (
    <div class="signed">
      {broken && <p class="problem">The chain was broken before record {broken.number}, <When time={broken.at} now={now} />: {broken.reason}</p>}
      {dropped && <p class="note">Records came faster than they are kept, <When time={dropped.at} now={now} />: {dropped.reason}</p>}
      <p class="hint">
        {digest ? <>Signed up to record {digest.number} <When time={digest.at} now={now} />. </> : "No signature covers these records yet; one is made each hour. "}
        <code>sandcell audit verify</code> verifies them on the host, also against lines that were kept elsewhere.
      </p>
      <Verify />
    </div>
  );
}

function Row({ entry, now }: { entry: Entry; now: number }) {
  const error = entry.detail["errorCode"];
  return (
    <tr>
      <td class="number">{entry.number}</td>
      <td><When time={entry.at} now={now} /></td>
      <td>{entry.principal ?? ""}</td>
      <th scope="row">{entry.event}</th>
      <td><span class={entry.allowed ? "state live" : "state bad"}>{entry.allowed ? "Allowed" : "Refused"}</span>{error && <span class="soon"> {error}</span>}</td>
      <td class="wrap">
        <details>
          <summary>{entry.session_id ? `session ${entry.session_id.slice(0, 8)} ` : ""}{entry.target || entry.reason || entry.kind}</summary>
          {entry.reason && <p class="hint">{entry.reason}</p>}
          <pre class="log" tabIndex={0}>{JSON.stringify(entry.detail, null, 2)}</pre>
        </details>
      </td>
    </tr>
  );
}
