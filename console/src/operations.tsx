// What an operator looks after: usage and quotas, credentials, the audit log, pools, and what waits for the store.

import { useEffect, useState } from "preact/hooks";
import { all, Copied, Dialog, later, Problem, useAct, useAnswer } from "./answers";
import { ask, readText, type Session, type Who } from "./api";
import { Audit } from "./audit";
import type { Environment } from "./environments";
import { count, duration, size, useNow, When } from "./time";

interface Usage {
  principal: string; workspaces: number; live_workspaces: number; file_count: number; size_bytes: number; datasets: number;
  live_sessions: number; live_sessions_most: number; memory_bytes: number; disk_bytes: number; cpu_seconds: number; not_counted: number;
}
interface Principal { name: string; admin: boolean; created_at: string; disabled_at: string | null; live_sessions: number; live_sessions_most: number }
interface Token {
  id: string; principal: string; name: string; created_at: string; revoked_at: string | null; scope: Who["scope"];
  expires_at: string | null; last_used_at: string | null; token?: string;
}

const Host = later(async () => (await import("./host")).Host);
const Metrics = later(async () => (await import("./metrics")).Metrics);

const PARTS: Record<string, { title: string; operators?: boolean }> = {
  usage: { title: "Usage" }, principals: { title: "Principals", operators: true }, tokens: { title: "Tokens", operators: true },
  audit: { title: "Audit log" }, metrics: { title: "Metrics", operators: true }, pools: { title: "Pools", operators: true }, store: { title: "Store" },
  host: { title: "Host", operators: true },
};
const LIFETIMES: [string, number][] = [["Until it is revoked", 0], ["1 hour", 3600], ["1 day", 86_400], ["30 days", 2_592_000], ["1 year", 31_536_000]];

export function Operations({ part, who }: { part: string; who: Who }) {
  const operator = who.administrator && who.scope === "admin";
  const shown = Object.entries(PARTS).filter(([, each]) => operator || !each.operators);
  const title = PARTS[part]?.title ?? "Usage";
  useEffect(() => { document.title = `${title} · Sandcell`; }, [title]);
  return (
    <section aria-label={title} class="page">
      <div class="bar">
        <h1>Operations</h1>
        <nav class="choice" aria-label="Parts">
          {shown.map(([name, each]) => <a key={name} href={`#/operations/${name}`} aria-current={name === part ? "page" : undefined}>{each.title}</a>)}
        </nav>
      </div>
      {part === "principals" && operator ? <Principals /> : part === "tokens" && operator ? <Tokens who={who} />
        : part === "audit" ? <Audit everybody={operator} /> : part === "metrics" && operator ? <Metrics /> : part === "pools" && operator ? <Pools /> : part === "host" && operator ? <Host />
          : part === "store" ? <Store everybody={operator} who={who} /> : <UsageTable />}
    </section>
  );
}

function UsageTable() {
  const { found, problem, again } = useAnswer((signal) => all<Usage>("/v1/usage?limit=200", signal), [], 15);
  return (
    <>
      <Problem text={problem} again={again} />
      {found && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Usage by principal">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Principal</th><th scope="col" class="number">Live sessions</th><th scope="col" class="number">Memory</th>
                <th scope="col" class="number">Disk</th><th scope="col" class="number">Processor time</th>
                <th scope="col" class="number">Workspaces</th><th scope="col" class="number">Files</th><th scope="col" class="number">Stored</th>
              </tr>
            </thead>
            <tbody>
              {found.map((each) => (
                <tr key={each.principal}>
                  <th scope="row">{each.principal}</th>
                  <td class="number"><Share of={each} /></td>
                  <td class="number">{each.memory_bytes ? size(each.memory_bytes) : ""}</td>
                  <td class="number">{each.disk_bytes ? size(each.disk_bytes) : ""}</td>
                  <td class="number">{duration(each.cpu_seconds * 1000)}</td>
                  <td class="number">{each.workspaces.toLocaleString()}</td>
                  <td class="number">{each.file_count.toLocaleString()}</td>
                  <td class="number" title={each.not_counted ? `${each.not_counted} workspaces are not counted yet` : undefined}>
                    {size(each.size_bytes)}{each.not_counted > 0 && " +"}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {found.length === 0 && <p class="empty">Nobody has used anything yet.</p>}
        </div>
      )}
    </>
  );
}

function Share({ of: { live_sessions: live, live_sessions_most: most } }: { of: { live_sessions: number; live_sessions_most: number } }) {
  return <>{live} of {most.toLocaleString()}{most > 0 && <meter class="memory" min={0} max={most} high={most * 0.85} value={live} aria-label="Live sessions" />}</>;
}

function Principals() {
  const { found, problem, again } = useAnswer((signal) => all<Principal>("/v1/principals?limit=200", signal), [], 15);
  const [changing, setChanging] = useState<Principal | null>(null);
  const { doing, failed, act } = useAct();
  const now = useNow(15);
  async function turn(principal: Principal): Promise<void> {
    const on = principal.disabled_at !== null;
    if (!on && !confirm(`Disable ${principal.name}? Its credentials count no longer, and its sessions are stopped; their files stay.`)) return;
    await act(() => ask("POST", `/v1/principals/${encodeURIComponent(principal.name)}/${on ? "enable" : "disable"}`, on ? undefined : {}));
    again();
  }
  return (
    <>
      <Problem text={problem} again={again} />
      <Problem text={failed} />
      {found && (
        <div class="scroll" tabIndex={0} role="group" aria-label="All principals">
          <table class="list">
            <thead><tr><th scope="col">Principal</th><th scope="col">State</th><th scope="col" class="number">Live sessions</th><th scope="col">Made</th><th scope="col"><span class="hidden">Verbs</span></th></tr></thead>
            <tbody>
              {found.map((each) => (
                <tr key={each.name}>
                  <th scope="row">{each.name}{each.admin && <span class="label beside">administrator</span>}</th>
                  <td>{each.disabled_at ? <span class="state ended">Disabled <When time={each.disabled_at} now={now} /></span> : <span class="state live">Active</span>}</td>
                  <td class="number"><Share of={each} /></td>
                  <td><When time={each.created_at} now={now} /></td>
                  <td>
                    <button type="button" class="quiet" onClick={() => setChanging(each)} aria-label={`Quota of ${each.name}`}>Quota</button>
                    <button type="button" class="quiet" disabled={doing} onClick={() => turn(each)} aria-label={`${each.disabled_at ? "Enable" : "Disable"} ${each.name}`}>
                      {each.disabled_at ? "Enable" : "Disable"}
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {changing && <Quota principal={changing} onClose={(changed) => { setChanging(null); if (changed) again(); }} />}
    </>
  );
}

function Quota({ principal, onClose }: { principal: Principal; onClose: (changed: boolean) => void }) {
  const [most, setMost] = useState(String(principal.live_sessions_most));
  const { doing, failed, act } = useAct();
  const put = async (live_sessions: number | null) => {
    if (await act(() => ask("PUT", `/v1/principals/${encodeURIComponent(principal.name)}/quota`, { live_sessions }))) onClose(true);
  };
  return (
    <Dialog title={`Quota of ${principal.name}`} onClose={() => onClose(false)}>
      <form onSubmit={(event) => { event.preventDefault(); void put(Number(most)); }}>
        <label for="quota">Live sessions at most</label>
        <input id="quota" type="number" min={1} max={100_000} required value={most} onInput={(event) => setMost(event.currentTarget.value)} />
        <Problem text={failed} />
        <div class="buttons">
          <button type="button" onClick={() => onClose(false)}>Cancel</button>
          <button type="button" disabled={doing} onClick={() => put(null)}>As the settings say</button>
          <button type="submit" class="main" disabled={doing}>Set</button>
        </div>
      </form>
    </Dialog>
  );
}

function stateOf(token: Token, now: number) {
  if (token.revoked_at) return <span class="state ended">Revoked <When time={token.revoked_at} now={now} /></span>;
  if (token.expires_at && Date.parse(token.expires_at) < now) return <span class="state ended">Expired <When time={token.expires_at} now={now} /></span>;
  return <span class="state live">{token.expires_at ? <>Ends <When time={token.expires_at} now={now} /></> : "Counts"}</span>;
}

function Tokens({ who }: { who: Who }) {
  const { found, problem, again } = useAnswer((signal) => all<Token>("/v1/tokens?limit=200", signal), [], 30);
  const [making, setMaking] = useState(false);
  const [past, setPast] = useState(false);
  const { doing, failed, act } = useAct();
  const now = useNow(15);
  const counts = (each: Token) => !each.revoked_at && !(each.expires_at && Date.parse(each.expires_at) < now);
  const shown = (found ?? []).filter((each) => past || counts(each));
  async function revoke(token: Token): Promise<void> {
    if (!confirm(`Revoke the token ${token.name || token.id.slice(0, 8)} of ${token.principal}? What uses it is refused from now on.`)) return;
    await act(() => ask("DELETE", `/v1/tokens/${token.id}`));
    again();
  }
  return (
    <>
      <div class="bar">
        <label><input type="checkbox" checked={past} onChange={(event) => setPast(event.currentTarget.checked)} /> Also those that count no longer</label>
        <span class="grow" />
        <button type="button" class="main" onClick={() => setMaking(true)}>New token</button>
      </div>
      <Problem text={problem} again={again} />
      <Problem text={failed} />
      {found && shown.length === 0 && <p class="empty">No token counts. <b>New token</b> makes one.</p>}
      {shown.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="All tokens">
          <table class="list">
            <thead><tr><th scope="col">Token</th><th scope="col">Principal</th><th scope="col">Good for</th><th scope="col">State</th><th scope="col">Made</th><th scope="col">Last used</th><th scope="col"><span class="hidden">Verbs</span></th></tr></thead>
            <tbody>
              {shown.map((each) => (
                <tr key={each.id}>
                  <th scope="row" title={each.id}>{each.name || each.id.slice(0, 8)}</th>
                  <td>{each.principal}</td><td>{each.scope}</td><td>{stateOf(each, now)}</td>
                  <td><When time={each.created_at} now={now} /></td>
                  <td>{each.last_used_at ? <When time={each.last_used_at} now={now} /> : "never"}</td>
                  <td>{counts(each) && <button type="button" class="quiet" disabled={doing} onClick={() => revoke(each)} aria-label={`Revoke ${each.name || each.id}`}>Revoke</button>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {making && <NewToken principal={who.principal} onClose={() => { setMaking(false); again(); }} />}
    </>
  );
}

/** The secret is in this answer alone: the dialog shows it until it is closed, and nothing keeps it. */
function NewToken({ principal, onClose }: { principal: string; onClose: () => void }) {
  const [owner, setOwner] = useState(principal);
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Who["scope"]>("run");
  const [lifetime, setLifetime] = useState(0);
  const [made, setMade] = useState<Token | null>(null);
  const { doing, failed, act } = useAct();
  const submit = (event: Event) => {
    event.preventDefault();
    void act(async () => setMade(await ask<Token>("POST", "/v1/tokens", { principal: owner, name, scope, ...(lifetime && { ttl_seconds: lifetime }) })));
  };
  if (made) {
    return (
      <Dialog title="A token was made" wide onClose={onClose}>
        <p>It is shown this once. Whoever has it is {made.principal}, with the scope {made.scope}.</p>
        <Copied label="Token" text={made.token ?? ""} />
        <div class="buttons"><button type="button" class="main" onClick={onClose}>Done</button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="New token" onClose={onClose}>
      <form onSubmit={submit}>
        <label for="token-principal">Principal; one that there is not yet is made</label>
        <input id="token-principal" required maxLength={100} value={owner} onInput={(event) => setOwner(event.currentTarget.value)} />
        <label for="token-name">What it is for</label>
        <input id="token-name" maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        <label for="token-scope">Good for</label>
        <select id="token-scope" value={scope} onChange={(event) => setScope(event.currentTarget.value as Who["scope"])}>
          <option value="read">Looking (read)</option>
          <option value="run">Running, and changing what is its own (run)</option>
          <option value="admin">All that the principal may (admin)</option>
        </select>
        <label for="token-lifetime">Counts</label>
        <select id="token-lifetime" value={lifetime} onChange={(event) => setLifetime(Number(event.currentTarget.value))}>
          {LIFETIMES.map(([text, seconds]) => <option key={seconds} value={seconds}>{text}</option>)}
        </select>
        <Problem text={failed} />
        <div class="buttons">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="main" disabled={doing}>{doing ? "Making" : "Make"}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Pools() {
  const { found, problem, again } = useAnswer(async (signal) => {
    const hosts = await all<Environment>("/v1/environments?kind=host&limit=200", signal);
    return Promise.all(hosts.map((each) => ask<Environment>("GET", `/v1/environments/${encodeURIComponent(each.id)}`, undefined, signal)));
  }, [], 5);
  const pools = (found ?? []).flatMap((each) => (each.pool ? [{ name: each.name, id: each.id, pool: each.pool }] : []));
  return (
    <>
      <Problem text={problem} again={again} />
      {found && pools.length === 0 && <p class="empty">No environment has a pool, so each session starts a sandbox of its own. <code>warm = 2</code> in the environments file keeps two ready.</p>}
      {pools.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="All pools">
          <table class="list">
            <thead>
              <tr><th scope="col">Environment</th><th scope="col" class="number">Ready</th><th scope="col" class="number">Starting</th><th scope="col" class="number">Wanted</th>
                <th scope="col" class="number">Sessions served</th><th scope="col" class="number">Found none</th><th scope="col" class="number">Did not start</th>
                <th scope="col" class="number">Memory</th><th scope="col" class="number">Time to ready</th></tr>
            </thead>
            <tbody>
              {pools.map(({ name, id, pool }) => (
                <tr key={id}>
                  <th scope="row"><a href={`#/environments/${encodeURIComponent(id)}`}>{name}</a></th>
                  <td class="number">{pool.ready}</td><td class="number">{pool.starting}</td>
                  <td class="number" title={`Between ${pool.least} and ${pool.most}`}>{pool.target}</td>
                  <td class="number">{pool.hits.toLocaleString()}</td><td class="number">{pool.misses.toLocaleString()}</td>
                  <td class="number">{pool.failures.toLocaleString()}</td><td class="number">{size(pool.memory_bytes)}</td>
                  <td class="number">{pool.seconds_to_ready === null ? "" : duration(pool.seconds_to_ready * 1000)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

type Owned = Session & { principal?: string };

async function readSpooled(signal: AbortSignal): Promise<number> {
  return Number(/^sandcell_spool_workspaces (\S+)$/m.exec(await readText("/metrics", signal))?.[1] ?? 0);
}

/** What is not in the store yet: it is in live sandboxes, or in the spool on the service's disk, until the store takes it. */
function Store({ everybody, who }: { everybody: boolean; who: Who }) {
  const path = everybody ? "/v1/admin/sessions" : "/v1/sessions";
  const { found, problem, again } = useAnswer((signal) => all<Owned>(`${path}?status=READY&limit=200`, signal), [path], 5);
  const { found: spooled } = useAnswer(async (signal) => (everybody ? readSpooled(signal) : null), [path], 5);
  const now = useNow(5);
  const waiting = (found ?? []).filter((each) => each.sync.pending || each.sync.error);
  const bytes = waiting.reduce((sum, each) => sum + each.sync.pending_bytes, 0);
  return (
    <>
      <Problem text={problem} again={again} />
      {found && <p class="hint">{found.length === 0 ? "No session is live." : waiting.length === 0 ? `All files of ${found.length} live sessions are in the store.`
        : `${waiting.length} of ${found.length} live sessions have files that are not in the store yet: ${size(bytes)}.`}</p>}
      {spooled !== null && (spooled === 0 ? <p class="hint">Nothing of ended sessions waits in the spool.</p>
        : <p class="note">The files of {count(spooled, "ended session")} are in the spool, on the disk of the service's host, until the store takes them.</p>)}
      {waiting.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Sessions with files that wait">
          <table class="list">
            <thead><tr><th scope="col">Session</th>{everybody && <th scope="col">Principal</th>}<th scope="col" class="number">Files</th><th scope="col" class="number">Bytes</th><th scope="col">Last complete</th><th scope="col">Why</th></tr></thead>
            <tbody>
              {waiting.map((each) => (
                <tr key={each.id}>
                  <th scope="row">{(each.principal ?? who.principal) === who.principal ? <a href={`#/sessions/${each.id}`}>{each.name}</a> : each.name}</th>
                  {everybody && <td>{each.principal}</td>}
                  <td class="number">{each.sync.pending_files.toLocaleString()}</td><td class="number">{size(each.sync.pending_bytes)}</td>
                  <td>{each.sync.last_flush_at ? <When time={each.sync.last_flush_at} now={now} /> : "never"}</td>
                  <td class="wrap">{each.sync.error ?? "On its way"}{each.sync.retry_at && <>. Again <When time={each.sync.retry_at} now={now} />.</>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
