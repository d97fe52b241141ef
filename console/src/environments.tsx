// The environments that sessions start from: what they are made of, who needs them, and the verbs on them.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { all, Dialog, Problem, useAct, useAnswer } from "./answers";
import { ask } from "./api";
import { count, size, useNow, When } from "./time";

export interface Environment {
  id: string; name: string; kind: "host" | "made"; description: string; digest: string; image: string; runtime: string;
  status: "READY" | "BUILDING" | "FAILED" | "UNAVAILABLE" | "DELETED"; failure: string; memory_mb: number; vcpus: number;
  storage_mb: number; network: { mode: string }; packages: string[]; apt: string[]; build_log: string;
  tags: Record<string, string>; created_at: string | null; pool: Pool | null;
}
export interface Pool {
  least: number; most: number; target: number; ready: number; starting: number; hits: number; misses: number;
  failures: number; memory_bytes: number; seconds_to_ready: number | null;
}
interface Agent { name: string; environment: string | null; detached_from: string | null }
interface Image { digest: string; name: string; python_version: string; size_bytes: number; package_count: number; system: string; notes: string[] }
interface Package { name: string; version: string; kind: string; source: string }
interface Dependents {
  agents: string[]; sessions: string[]; detached_agents: string[];
  agent_count: number; session_count: number; detached_count: number;
}

const STATES: Record<Environment["status"], string> =
  { READY: "Ready", BUILDING: "Building", FAILED: "Failed", UNAVAILABLE: "Unavailable", DELETED: "Deleted" };
const MARKS: Record<string, string> = { READY: "live", BUILDING: "busy", FAILED: "bad", UNAVAILABLE: "bad" };
const PACKAGES_SHOWN = 500;

function StateOf({ environment }: { environment: Environment }) {
  return <span class={`state ${MARKS[environment.status] ?? "ended"}`} title={environment.failure}>{STATES[environment.status]}</span>;
}

export function Environments({ may }: { may: boolean }) {
  const [making, setMaking] = useState(false);
  const { found, problem, again } = useAnswer((signal) => all<Environment>("/v1/environments?limit=200", signal), [], 10);
  // Images when there is another one, agents as the page is opened: an environment's own page follows who needs it.
  const images = useAnswer(async (signal) => new Map((await all<Image>("/v1/images?limit=200", signal)).map((each) => [each.digest, each])),
    [], 0, found?.map((each) => each.digest).join());
  const agents = useAnswer(async (signal) => {
    const counts = new Map<string, number>();
    for (const { environment } of await all<Agent>("/v1/agents?limit=1000", signal)) if (environment) counts.set(environment, (counts.get(environment) ?? 0) + 1);
    return counts;
  }, []);
  useEffect(() => { document.title = "Environments · Sandcell"; }, []);
  return (
    <section aria-label="Environments" class="page">
      <div class="bar">
        <h1>Environments</h1>
        <span class="grow" />
        {may && <button type="button" class="main" disabled={!found} onClick={() => setMaking(true)}>New environment</button>}
      </div>
      <Problem text={problem || images.problem || agents.problem} again={() => { again(); images.again(); agents.again(); }} />
      {found?.length === 0 && (
        <p class="empty">There is no environment, so no session can start. <code>sandcell environments build python</code> on the host builds the first.</p>
      )}
      {found && found.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="All environments">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Environment</th><th scope="col">State</th><th scope="col">Image</th>
                <th scope="col" class="number">Size</th><th scope="col" class="number">Packages</th>
                <th scope="col" class="number">Memory</th><th scope="col" class="number">vCPU</th>
                <th scope="col">Network</th><th scope="col" class="number">Agents</th>
              </tr>
            </thead>
            <tbody>
              {found.map((each) => {
                const image = images.found?.get(each.digest);
                return (
                  <tr key={each.id}>
                    <th scope="row">
                      <a href={`#/environments/${encodeURIComponent(each.id)}`} title={each.description}>{each.name}</a>
                      {each.kind === "made" && <span class="label beside">yours</span>}
                    </th>
                    <td><StateOf environment={each} /></td>
                    <td>{each.image || each.name}{image?.python_version && <span class="hint"> Python {image.python_version}</span>}</td>
                    <td class="number">{image?.size_bytes ? size(image.size_bytes) : ""}</td>
                    <td class="number">{image?.package_count || ""}</td>
                    <td class="number">{each.memory_mb.toLocaleString()} MB</td>
                    <td class="number">{each.vcpus.toFixed(2)}</td>
                    <td>{each.network.mode}</td>
                    <td class="number">{agents.found?.get(each.id) ?? ""}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {making && <NewEnvironment bases={(found ?? []).filter((each) => each.kind === "host")} onClose={() => setMaking(false)} />}
    </section>
  );
}

function lines(text: string): string[] {
  return text.split(/[\n,]/).map((each) => each.trim()).filter(Boolean);
}

function NewEnvironment({ bases, onClose }: { bases: Environment[]; onClose: () => void }) {
  const [name, setName] = useState("");
  const [image, setImage] = useState(bases.find((each) => each.name === "python")?.name ?? bases[0]?.name ?? "");
  const [packages, setPackages] = useState("");
  const [apt, setApt] = useState("");
  const [memory, setMemory] = useState("");
  const { doing, failed, act } = useAct();
  const submit = (event: Event) => {
    event.preventDefault();
    const body = { name, image, packages: lines(packages), apt: lines(apt), ...(memory && { memory_mb: Number(memory) }) };
    void act(async () => {
      const made = await ask<Environment>("POST", "/v1/environments", body);
      location.hash = `#/environments/${encodeURIComponent(made.id)}`;
    });
  };
  return (
    <Dialog title="New environment" onClose={onClose}>
      <form onSubmit={submit}>
        <label for="made-name">Name</label>
        <input id="made-name" required pattern="[A-Za-z][A-Za-z0-9_]{0,47}" title="A letter, then letters, digits and _" value={name}
          onInput={(event) => setName(event.currentTarget.value)} />
        <label for="made-image">Made from</label>
        <select id="made-image" value={image} onChange={(event) => setImage(event.currentTarget.value)}>
          {bases.map((each) => <option key={each.id} value={each.name}>{each.name}</option>)}
        </select>
        <label for="made-packages">Python packages to add, one a line</label>
        <textarea id="made-packages" rows={3} placeholder="tqdm==4.67.1" value={packages} onInput={(event) => setPackages(event.currentTarget.value)} />
        <label for="made-apt">Debian packages to add, one a line</label>
        <textarea id="made-apt" rows={2} value={apt} onInput={(event) => setApt(event.currentTarget.value)} />
        <label for="made-memory">Memory in MB, if another than the image's</label>
        <input id="made-memory" type="number" min={1} value={memory} onInput={(event) => setMemory(event.currentTarget.value)} />
        <Problem text={failed} />
        <div class="buttons">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="main" disabled={doing || !image}>{doing ? "Making" : "Make"}</button>
        </div>
      </form>
    </Dialog>
  );
}

export function EnvironmentPage({ id, may }: { id: string; may: boolean }) {
  const path = `/v1/environments/${encodeURIComponent(id)}`;
  const [building, setBuilding] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const { found: environment, problem, again } = useAnswer((signal) => ask<Environment>("GET", path, undefined, signal), [id], building ? 1 : 15);
  const dependents = useAnswer((signal) => ask<Dependents>("GET", `${path}/dependents`, undefined, signal), [id], 10);
  useEffect(() => setBuilding(environment?.status === "BUILDING"), [environment?.status]);
  useEffect(() => { if (environment) document.title = `${environment.name} · Sandcell`; }, [environment?.name]);
  return (
    <section aria-label="Environment" class="page">
      <div class="bar">
        <a href="#/environments" class="back" aria-label="All environments">←</a>
        <h1>{environment?.name ?? "Environment"}</h1>
        {environment && <StateOf environment={environment} />}
        {environment?.description && <span class="hint">{environment.description}</span>}
        <span class="grow" />
        {may && environment?.kind === "made" && environment.status !== "DELETED" && (
          <button type="button" class="danger" onClick={() => setDeleting(true)}>Delete</button>
        )}
      </div>
      <Problem text={problem} again={again} />
      {environment && (
        <div class="scroll parts" tabIndex={0} role="group" aria-label={`About ${environment.name}`}>
          {environment.failure && <p class="problem">{environment.failure}</p>}
          <Facts environment={environment} />
          {(environment.build_log || environment.status === "BUILDING") && <BuildLog text={environment.build_log} building={environment.status === "BUILDING"} />}
          <Users path={path} may={may} answer={dependents.found} problem={dependents.problem} again={dependents.again} />
          {environment.digest && <Packages digest={environment.digest} />}
        </div>
      )}
      {deleting && environment && <Delete environment={environment} path={path} dependents={dependents.found} onClose={() => setDeleting(false)} />}
    </section>
  );
}

function Facts({ environment: each }: { environment: Environment }) {
  const now = useNow(30);
  return (
    <dl class="facts-list">
      <dt>Made from</dt><dd>{each.image || each.name}</dd>
      {each.packages.length > 0 && <><dt>Python packages added</dt><dd>{each.packages.join(", ")}</dd></>}
      {each.apt.length > 0 && <><dt>Debian packages added</dt><dd>{each.apt.join(", ")}</dd></>}
      <dt>Memory, processors, disk</dt><dd>{each.memory_mb.toLocaleString()} MB, {each.vcpus.toFixed(2)} vCPU, {each.storage_mb.toLocaleString()} MB</dd>
      <dt>Network</dt><dd>{each.network.mode}</dd>
      {each.runtime && <><dt>Runtime</dt><dd>{each.runtime}</dd></>}
      {each.created_at && <><dt>Made</dt><dd><When time={each.created_at} now={now} /></dd></>}
      {Object.keys(each.tags).length > 0 && <><dt>Tags</dt><dd>{Object.entries(each.tags).map(([key, value]) => <span class="label" key={key}>{key}={value}</span>)}</dd></>}
      {each.digest && <><dt>Digest</dt><dd><code>{each.digest}</code></dd></>}
    </dl>
  );
}

/** Who reads its end stays at its end while more comes. */
function BuildLog({ text, building }: { text: string; building: boolean }) {
  const element = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => { if (atEnd.current && element.current) element.current.scrollTop = element.current.scrollHeight; }, [text]);
  return (
    <section aria-labelledby="log-title">
      <h2 id="log-title">Build log{building && <span class="hint" role="status"> building</span>}</h2>
      <pre ref={element} class="log" tabIndex={0} aria-label="Build log" onScroll={(event) => {
        const own = event.currentTarget;
        atEnd.current = own.scrollHeight - own.scrollTop - own.clientHeight < 20;
      }}>{text || "Nothing was printed yet."}</pre>
    </section>
  );
}

interface UsersProps { path: string; may: boolean; answer: Dependents | null; problem: string; again: () => void }

function Users({ path, may, answer, problem, again }: UsersProps) {
  const { doing, failed, act } = useAct();
  const [said, setSaid] = useState("");
  async function move(verb: "detach" | "attach"): Promise<void> {
    const done = await act(async () => {
      const moved = await ask<{ count: number }>("POST", `${path}/${verb}`, verb === "attach" ? {} : undefined);
      setSaid(`${count(moved.count, "agent")} ${verb === "detach" ? "disassociated" : "associated again"}.`);
    });
    if (done) again();
  }
  return (
    <section aria-labelledby="users-title">
      <div class="row">
        <h2 id="users-title">Who needs it</h2>
        {may && answer && answer.agent_count > 0 && (
          <button type="button" disabled={doing} onClick={() => move("detach")}>Disassociate all agents</button>
        )}
        {may && answer && answer.detached_count > 0 && (
          <button type="button" disabled={doing} onClick={() => move("attach")}>Re-associate all agents</button>
        )}
        <span class="hint" role="status">{said}</span>
      </div>
      <Problem text={failed} />
      <Problem text={problem} again={again} />
      {answer && <UserList answer={answer} />}
    </section>
  );
}

function UserList({ answer }: { answer: Dependents }) {
  if (answer.agent_count + answer.session_count + answer.detached_count === 0) {
    return <p class="hint">Nobody: no agent of yours is registered with it, and no session of yours runs in it. <code>PUT /v1/agents/NAME</code> registers one.</p>;
  }
  return (
    <dl class="facts-list">
      {answer.agent_count > 0 && <><dt>{count(answer.agent_count, "agent")}</dt><dd>{answer.agents.map((each) => <span class="label" key={each}>{each}</span>)}</dd></>}
      {answer.session_count > 0 && (
        <><dt>{count(answer.session_count, "live session")}</dt>
          <dd>{answer.sessions.map((each) => <a class="label" key={each} href={`#/sessions/${each}`}>{each.slice(0, 8)}</a>)}</dd></>
      )}
      {answer.detached_count > 0 && <><dt>{count(answer.detached_count, "disassociated agent")}</dt><dd>{answer.detached_agents.map((each) => <span class="label" key={each}>{each}</span>)}</dd></>}
    </dl>
  );
}

function Packages({ digest }: { digest: string }) {
  const [search, setSearch] = useState("");
  const { found, problem, again } = useAnswer((signal) =>
    ask<{ image: Image; packages: Package[] }>("GET", `/v1/images/${encodeURIComponent(digest)}`, undefined, signal), [digest]);
  const wanted = search.toLowerCase();
  const fit = (found?.packages ?? []).filter((each) => each.name.toLowerCase().includes(wanted));
  return (
    <section aria-labelledby="packages-title">
      <div class="row">
        <h2 id="packages-title">Packages</h2>
        {found && <span class="hint">{[found.image.system, found.image.python_version && `Python ${found.image.python_version}`,
          found.image.size_bytes && size(found.image.size_bytes)].filter(Boolean).join(", ")}</span>}
        <input type="search" aria-label="Search packages" placeholder="Search packages" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </div>
      <Problem text={problem} again={again} />
      {found?.image.notes.map((each) => <p class="note" key={each}>{each}</p>)}
      {found && fit.length === 0 && <p class="hint">{search ? "No package has this in its name." : "What is in this image was not written down when it was built."}</p>}
      {fit.length > 0 && (
        <table class="list narrow">
          <thead><tr><th scope="col">Package</th><th scope="col">Version</th><th scope="col">Kind</th><th scope="col">Installed by</th></tr></thead>
          <tbody>
            {fit.slice(0, PACKAGES_SHOWN).map((each) => (
              <tr key={`${each.kind} ${each.name}`}><th scope="row">{each.name}</th><td>{each.version}</td><td>{each.kind}</td><td>{each.source}</td></tr>
            ))}
          </tbody>
        </table>
      )}
      {fit.length > PACKAGES_SHOWN && <p class="hint">And {count(fit.length - PACKAGES_SHOWN, "other")}; search for one.</p>}
    </section>
  );
}

interface DeleteProps { environment: Environment; path: string; dependents: Dependents | null; onClose: () => void }

/** The service refuses as well: who needs it may have come meanwhile. */
function Delete({ environment, path, dependents, onClose }: DeleteProps) {
  const { doing, failed, act } = useAct();
  const needed = dependents !== null && dependents.agent_count + dependents.session_count > 0;
  const submit = (event: Event) => {
    event.preventDefault();
    void act(async () => { await ask("DELETE", path); location.hash = "#/environments"; });
  };
  return (
    <Dialog title={`Delete ${environment.name}`} onClose={onClose}>
      <form onSubmit={submit}>
        {needed ? <><p>It cannot be deleted while somebody needs it. Disassociate its agents and stop its sessions first.</p><UserList answer={dependents} /></>
          : <p>Nobody needs it. What was built for it is removed; workspaces of its sessions stay.</p>}
        <Problem text={failed} />
        <div class="buttons">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="danger" disabled={doing || needed || dependents === null}>{doing ? "Deleting" : "Delete"}</button>
        </div>
      </form>
    </Dialog>
  );
}
