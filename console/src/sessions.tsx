// The list of sessions: live ones first to look at, past ones on request; start, stop, stop several.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, pages, type Page, type Session, type Who } from "./api";
import { useEnvironmentNames } from "./environment_names";
import { duration, size, useNow, When } from "./time";

const EVERY_SECONDS = 15;
const MOST_LISTED = 1000;
const REASONS: Record<string, string> = {
  stopped: "stopped", idle_timeout: "idle for too long", ttl: "reached its time to live", shutdown: "the service stopped",
  start_failed: "could not start", lost: "lost", disabled: "its principal was disabled",
};

type Shown = "live" | "past" | "all";

/** Sorted by what `of` says, from the least; `falls`: from the largest or the latest. */
interface Column { name: string; number?: boolean; falls?: boolean; of?: (session: Owned) => number | string }
interface Order { by: Column; back: boolean }
const COLUMNS: Column[] = [
  { name: "Session", of: (each) => each.name.toLowerCase() },
  { name: "Principal", of: (each) => each.principal ?? "" },
  { name: "State" },
  { name: "Unless used", of: (each) => (each.status === "TERMINATED" ? Infinity : Date.parse(limitOf(each))) },
  { name: "Environment", of: (each) => each.environment },
  { name: "Agent and labels", of: (each) => each.agent ?? "\uffff" },
  { name: "Executions", number: true, falls: true, of: (each) => -each.usage.executions },
  { name: "Memory", number: true, falls: true, of: (each) => -each.usage.memory_bytes },
  { name: "Processor time", number: true, falls: true, of: (each) => -each.usage.cpu_seconds },
  { name: "Started", falls: true, of: (each) => -Date.parse(each.created_at) },
  { name: "Last used", falls: true, of: (each) => -Date.parse(each.last_activity_at) },
];
const NEWEST = COLUMNS.find(({ name }) => name === "Started")!;

/** An operator's list names whose each is; the record and the files of others' are not theirs to open here. */
type Owned = Session & { principal?: string };

export function Sessions({ may, who }: { may: boolean; who: Who }) {
  const operator = who.administrator && who.scope === "admin" && !who.person;
  const [everybody, setEverybody] = useState(false);
  const [sessions, setSessions] = useState<Owned[] | null>(null);
  const [more, setMore] = useState(false);
  const [problem, setProblem] = useState("");
  const [shown, setShown] = useState<Shown>("live");
  const [search, setSearch] = useState("");
  const [environment, setEnvironment] = useState("");
  const [principal, setPrincipal] = useState("");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [stopping, setStopping] = useState(false);
  const [starting, setStarting] = useState(false);
  const [order, setOrder] = useState<Order>({ by: NEWEST, back: false });
  const now = useNow(5);

  async function load(signal?: AbortSignal): Promise<void> {
    const statuses = shown === "live" ? ["READY", "HIBERNATED"] : shown === "past" ? ["TERMINATED"] : [""];
    const base = everybody ? "/v1/admin/sessions" : "/v1/sessions";
    try {
      const found: Owned[] = [];
      let cut = false;
      for (const status of statuses) {
        for await (const page of pages<Owned>(`${base}?limit=200${status && `&status=${status}`}`, signal)) {
          found.push(...page);
          if ((cut = found.length >= MOST_LISTED)) break;
        }
        if (cut) break;
      }
      found.sort((one, other) => Date.parse(other.created_at) - Date.parse(one.created_at));
      setSessions(found);
      setMore(cut);
      setProblem("");
    } catch (error) {
      if ((error as Error).name !== "AbortError") setProblem((error as Error).message);
    }
  }

  useEffect(() => {
    document.title = "Sessions · Sandcell";
    const stop = new AbortController();
    setSessions(null);
    setChosen(new Set());
    void load(stop.signal);
    const look = () => { if (document.visibilityState === "visible") void load(stop.signal); };
    const timer = setInterval(look, EVERY_SECONDS * 1000);
    document.addEventListener("visibilitychange", look);
    return () => { stop.abort(); clearInterval(timer); document.removeEventListener("visibilitychange", look); };
  }, [shown, everybody]);

  const environments = useMemo(() => [...new Set(sessions?.map((each) => each.environment))].sort(), [sessions]);
  const nameOf = useEnvironmentNames(environments);
  const principals = useMemo(() => [...new Set(sessions?.map((each) => each.principal ?? ""))].filter(Boolean).sort(), [sessions]);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const visible = (sessions ?? []).filter((each) =>
    (!environment || each.environment === environment) && (!everybody || !principal || each.principal === principal) && words.every((word) => textOf(each).includes(word)));
  visible.sort((one, other) => (order.back ? -1 : 1) * compare(order.by.of!(one), order.by.of!(other)));
  const living = visible.filter((each) => each.status !== "TERMINATED");
  const stoppable = living.filter((each) => chosen.has(each.id));

  async function stopChosen(): Promise<void> {
    if (!confirm(`Stop ${stoppable.length} ${stoppable.length === 1 ? "session" : "sessions"}? Their files stay.`)) return;
    setStopping(true);
    const results = await Promise.allSettled(stoppable.map((each) => ask("DELETE", `${everybody ? "/v1/admin/sessions" : "/v1/sessions"}/${each.id}`)));
    const failed = results.find((each) => each.status === "rejected");
    setStopping(false);
    setChosen(new Set());
    await load();
    if (failed) setProblem((failed as PromiseRejectedResult).reason.message);
  }

  function choose(id: string, on: boolean): void {
    const next = new Set(chosen);
    if (on) next.add(id); else next.delete(id);
    setChosen(next);
  }

  /** Show only what has this agent or label, too. */
  const narrow = (text: string) => { if (!words.includes(text.toLowerCase())) setSearch(`${search} ${text}`.trim()); };

  return (
    <section aria-label="Sessions" class="page">
      <div class="bar">
        <h1>Sessions</h1>
        <div class="choice" role="group" aria-label="Which sessions">
          {(["live", "past", "all"] as const).map((each) => (
            <button type="button" key={each} aria-pressed={shown === each} onClick={() => setShown(each)}>
              {each === "live" ? "Live" : each === "past" ? "Past" : "All"}
            </button>
          ))}
        </div>
        {operator && (
          <select aria-label="Whose sessions" value={everybody ? "everybody" : ""} onChange={(event) => setEverybody(event.currentTarget.value !== "")}>
            <option value="">Mine</option>
            <option value="everybody">Everybody's</option>
          </select>
        )}
        <input type="search" aria-label="Search sessions" placeholder="Search names, agents, labels" value={search}
          onInput={(event) => setSearch(event.currentTarget.value)} />
        {environments.length > 1 && (
          <select aria-label="Environment" value={environment} onChange={(event) => setEnvironment(event.currentTarget.value)}>
            <option value="">Every environment</option>
            {environments.map((each) => <option key={each} value={each} title={each}>{nameOf(each)}</option>)}
          </select>
        )}
        {everybody && (principals.length > 1 || principal) && (
          <select aria-label="Principal" value={principal} onChange={(event) => setPrincipal(event.currentTarget.value)}>
            <option value="">Every principal</option>
            {[...new Set([...principals, principal])].filter(Boolean).map((each) => <option key={each} value={each}>{each}</option>)}
          </select>
        )}
        <span class="grow" />
        {stoppable.length > 0 && (
          <button type="button" class="danger" disabled={stopping} onClick={stopChosen}>
            {stopping ? "Stopping" : `Stop ${stoppable.length}`}
          </button>
        )}
        {may && <button type="button" class="main" onClick={() => setStarting(true)}>New session</button>}
      </div>
      {problem && <p role="alert" class="problem">{problem} <button type="button" onClick={() => load()}>Try again</button></p>}
      {sessions !== null && visible.length === 0 && <Nothing filtered={sessions.length > 0} shown={shown} may={may} />}
      {visible.length > 0 && (
        <div class="scroll">
          <table class="list" aria-label={everybody ? "Sessions of everybody" : "Sessions"}>
            <thead>
              <tr>
                {may && (
                  <th scope="col">
                    {living.length > 0 && <input type="checkbox" aria-label="Choose all that show" checked={stoppable.length === living.length}
                      onChange={(event) => setChosen(new Set(event.currentTarget.checked ? living.map((each) => each.id) : []))} />}
                  </th>
                )}
                {COLUMNS.filter(({ name }) => everybody || name !== "Principal").map((each) => <Heading key={each.name} of={each} order={order} onOrder={setOrder} />)}
              </tr>
            </thead>
            <tbody>
              {visible.map((each) => (
                <Row key={each.id} session={each} environment={nameOf(each.environment)} own={!everybody || each.principal === who.principal} everybody={everybody} now={now} chosen={chosen.has(each.id)} choose={may ? choose : undefined} narrow={narrow} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {more && <p class="hint">These are the newest {MOST_LISTED.toLocaleString()}. <code>sandcell session ls --all</code> lists the rest.</p>}
      {starting && <NewSession onClose={() => setStarting(false)} />}
    </section>
  );
}

function textOf(session: Owned): string {
  const labels = Object.entries(session.labels).map(([name, value]) => `${name}=${value}`);
  return [session.name, session.id, session.environment, session.agent ?? "", session.principal ?? "", ...labels].join(" ").toLowerCase();
}

/** A column's name, which sorts by it, and by it the other way round. */
function Heading({ of, order, onOrder }: { of: Column; order: Order; onOrder: (order: Order) => void }) {
  const sorted = order.by === of;
  const rises = sorted && order.back === (of.falls ?? false);
  return (
    <th scope="col" class={of.number ? "number" : ""} aria-sort={!sorted ? undefined : rises ? "ascending" : "descending"}>
      {of.of ? <button type="button" class="sort" onClick={() => onOrder({ by: of, back: sorted && !order.back })}>{of.name}</button> : of.name}
    </th>
  );
}

interface RowProps {
  session: Owned; environment: string; own: boolean; everybody: boolean; now: number; chosen: boolean;
  choose?: (id: string, on: boolean) => void; narrow: (text: string) => void;
}

function Row({ session, environment, own, everybody, now, chosen, choose, narrow }: RowProps) {
  const live = session.status !== "TERMINATED";
  return (
    <tr>
      {choose && (
        <td>
          {live && <input type="checkbox" aria-label={`Choose ${session.name}`} checked={chosen}
            onChange={(event) => choose(session.id, event.currentTarget.checked)} />}
        </td>
      )}
      <th scope="row" class="name" title={`${session.name}\n${session.id}`}>{own ? <a href={`#/sessions/${session.id}`}>{session.name}</a> : session.name}</th>
      {everybody && <td>{session.principal}</td>}
      <td><State session={session} /></td>
      <td><Idle session={session} now={now} /></td>
      <td title={session.environment}>{environment}</td>
      <td>
        {[...(session.agent ? [session.agent] : []), ...Object.entries(session.labels).map(([name, value]) => `${name}=${value}`)].map((each) => (
          <button type="button" class="label" key={each} title="Show those with it" onClick={() => narrow(each)}>{each}</button>
        ))}
      </td>
      <td class="number">{session.usage.executions}</td>
      <td class="number">{live && session.usage.memory_bytes > 0 ? size(session.usage.memory_bytes) : ""}</td>
      <td class="number">{session.usage.cpu_seconds > 0 ? duration(session.usage.cpu_seconds * 1000) : ""}</td>
      <td><When time={session.created_at} now={now} /></td>
      <td><When time={session.last_activity_at} now={now} /></td>
    </tr>
  );
}

export function State({ session }: { session: Session }) {
  if (session.status === "TERMINATED") {
    const reason = REASONS[session.ended?.reason ?? ""] ?? session.ended?.reason ?? "";
    return <span class="state ended" title={session.ended?.detail}>Ended{reason && `: ${reason}`}</span>;
  }
  if (session.status === "HIBERNATED") {
    return <span class="state" title="Its next use wakes it.">Hibernated until {new Date(session.expires_at).toLocaleDateString()}</span>;
  }
  return <span class="state live">{session.memory === "paged_out" ? "Live, asleep" : "Live"}</span>;
}

const SOON_MILLISECONDS = 5 * 60_000;

function limitOf({ hibernates_at: hibernates, status, idle_expires_at: idle, expires_at: expires }: Session): string {
  return hibernates ?? (status === "READY" ? idle : expires);
}

function compare(one: number | string, other: number | string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** What becomes of a session that nobody uses, and when. */
export function Idle({ session, now }: { session: Session; now: number }) {
  if (session.status === "TERMINATED") return null;
  const sleeps = session.hibernates_at;
  const time = limitOf(session);
  const soon = Date.parse(time) - now < SOON_MILLISECONDS;
  return <span class={soon ? "soon" : ""}>{sleeps ? "hibernates" : "ends"} <When time={time} now={now} /></span>;
}

function Nothing({ filtered, shown, may }: { filtered: boolean; shown: Shown; may: boolean }) {
  if (filtered) return <p class="empty">No session fits. Use fewer words, or another environment or principal.</p>;
  return (
    <div class="empty">
      <p>{shown === "past" ? "No session of yours has ended yet." : shown === "live" ? "No session of yours is live." : "You have no sessions yet."}</p>
      <p>{may && <>Start one here with <b>New session</b>, or </>}run <code>sandcell run 'x = 41'</code>. What agents start with
        a token of yours shows up here by itself.</p>
    </div>
  );
}

function NewSession({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [environments, setEnvironments] = useState<string[]>([]);
  const [environment, setEnvironment] = useState("");
  const [name, setName] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    dialog.current?.showModal();
    ask<Page<{ name: string; id: string }>>("GET", "/v1/environments?limit=200")
      .then((page) => {
        const names = page.items.map((each) => each.name);
        setEnvironments(names);
        setEnvironment(names.includes("python") ? "python" : names[0] ?? "");
      })
      .catch((error) => setProblem(error.message));
  }, []);

  async function start(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const made = await ask<Session>("POST", "/v1/sessions", { environment, name });
      location.hash = `#/sessions/${made.id}`;
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  }

  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="new-title">
      <form onSubmit={start}>
        <h2 id="new-title">New session</h2>
        <label for="new-environment">Environment</label>
        <select id="new-environment" value={environment} onChange={(event) => setEnvironment(event.currentTarget.value)}>
          {environments.map((each) => <option key={each} value={each}>{each}</option>)}
        </select>
        <label for="new-name">Name, if you like</label>
        <input id="new-name" maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        {problem && <p role="alert" class="problem">{problem}</p>}
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>Cancel</button>
          <button type="submit" class="main" disabled={busy || !environment}>{busy ? "Starting" : "Start"}</button>
        </div>
      </form>
    </dialog>
  );
}
