// One session: its cells as they run, a cell to run, and the kernel's verbs.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { later, Problem, useAct } from "./answers";
import { ask, download, type ChangedFile, type Execution, type Failure, type Session, type Who } from "./api";
import type { AttachToken } from "./attach";
import { Cells, type Keys } from "./cells";
import type { Editor } from "./editor";
import { useEnvironmentNames } from "./environment_names";
import { useExecutions } from "./executions";
import { headersOf, LeaseBar, TakeOver } from "./lease";
import { Moves } from "./moves";
import { useNotes, type Note } from "./notes";
import { Idle, State } from "./sessions";
import { size, useNow, When } from "./time";
import { Timeline, type Used } from "./timeline";

const Variables = later(async () => (await import("./variables")).Variables);
const Files = later(async () => (await import("./files")).Files);
const Attach = later(async () => (await import("./attach")).Attach);
const Shells = later(async () => (await import("./shell")).Shells);
const Choose = later(async () => (await import("./choose")).Choose);

const USAGE_SECONDS = 20;
/** While one looks at the curves of it, or code runs. */
const WATCHED_SECONDS = 5;
const MOST_USED = 2000;
const NO_NOTES: Note[] = [];
const NONE_OPEN: readonly string[] = [];

type Panel = "" | "variables" | "files";

export function SessionPage({ id, who }: { id: string; who: Who }) {
  const may = who.scope !== "read";
  const { executions, earlier, loaded, problem, changes, want, wantAll, hear } = useExecutions(id);
  const notes = useNotes(id, changes);
  const [session, setSession] = useState<Session | null>(null);
  const [failed, setFailed] = useState("");
  const [panel, setPanel] = useState<Panel>("");
  const [shown, setShown] = useState<"" | "attach" | "compare">("");
  const [attached, setAttached] = useState<AttachToken | null>(null);
  const [timeline, setTimeline] = useState(false);
  const [shell, setShell] = useState(false);
  const [shells, setShells] = useState(NONE_OPEN);
  const [used, setUsed] = useState<Used[]>([]);
  const [opened, setOpened] = useState<ChangedFile | null>(null);
  const [target, setTarget] = useState<{ id: string } | null>(null);
  const editor = useRef<Editor | null>(null);
  const now = useNow(5);
  const nameOf = useEnvironmentNames(session ? [session.environment] : []);
  const busy = executions.some((each) => each.kind === "code" && each.status === "running");
  const waiting = executions.filter((each) => each.status === "queued").length;
  const ended = earlier + executions.filter((each) => each.ended_at).length;
  const live = session?.status === "READY";
  const hibernated = session?.status === "HIBERNATED";
  const usable = live || hibernated;

  useEffect(() => {
    const stop = new AbortController();
    const load = () => {
      if (document.visibilityState !== "visible") return;
      ask<Session>("GET", `/v1/sessions/${id}`, undefined, stop.signal).then((found) => {
        setSession(found);
        if (found.status !== "READY") return;
        const { memory_bytes: memory, cpu_seconds: cpuSeconds } = found.usage;
        setUsed((before) => [...before.slice(-MOST_USED), { at: Date.now(), memory, cpuSeconds }]);
      }).catch(() => undefined);
    };
    load();
    const timer = session && !usable ? undefined : setInterval(load, (timeline || busy ? WATCHED_SECONDS : USAGE_SECONDS) * 1000);
    return () => { stop.abort(); clearInterval(timer); };
  }, [id, changes, busy, usable, timeline]);
  useEffect(() => { if (timeline) wantAll(); }, [id, timeline]);
  useEffect(() => { if (session) document.title = `${session.name} · Sandcell`; }, [session?.name]);

  const showFile = useCallback((file: ChangedFile) => { setOpened({ ...file }); setPanel("files"); }, []);
  const setLease = (lease: Session["lease"]) => setSession((known) => known && { ...known, lease });

  async function act(method: string, path: string, question = ""): Promise<void> {
    if (question && !confirm(question)) return;
    setFailed("");
    try {
      const answer = await ask<Session | undefined>(method, `/v1/sessions/${id}${path}`);
      if (answer) setSession(answer);
    } catch (error) {
      setFailed((error as Failure).message);
    }
  }

  const moves = useMemo(() => new Moves(id, hear, setFailed), [id]);
  const generation = session && (live && may ? session.generation : 0);
  const mover = useMemo(() => (generation === null ? undefined : generation ? { generation, move: moves.add.bind(moves) } : null), [moves, generation]);
  const interrupt = () => act("POST", "/interrupt");
  const restart = () => act("POST", "/restart", "Restart the kernel? Its variables are lost; files stay.");
  const commands = live && may;
  const keys: Keys = {
    edit: () => editor.current?.focus(),
    interrupt: () => { if (commands && busy) void interrupt(); },
    restart: () => { if (commands) void restart(); },
  };

  return (
    <section class="session" aria-label="Session">
      <div class="bar">
        <div class="heading">
          <div class="title">
            <a href="#/" class="back" aria-label="All sessions">←</a>
            <h1 title={session?.name}>{session?.name ?? "Session"}</h1>
            {session && <State session={session} />}
          </div>
          {session && (
            <span class="hint facts">
              <span title={session.environment}>{nameOf(session.environment)}</span>{session.agent && ` · ${session.agent}`} · started <When time={session.created_at} now={now} />
              {live && <> · <Idle session={session} now={now} /> unless used</>}
              {session.from && <> · a fork of <a href={`#/sessions/${session.from.session}`}>{session.from.session.slice(0, 8)}</a></>}
              {live && session.usage.memory_limit_bytes > 0 && (
                <> · <Memory used={session.usage.memory_bytes} limit={session.usage.memory_limit_bytes} /></>
              )}
            </span>
          )}
        </div>
        <div class="commands">
          {session && (["variables", "files"] as const).map((each) => (each === "files" || live) && (
            <button type="button" key={each} aria-pressed={panel === each} onClick={() => { setOpened(null); setPanel(panel === each ? "" : each); }}>
              {each === "variables" ? "Variables" : "Files"}
            </button>
          ))}
          {session && <button type="button" aria-pressed={timeline} onClick={() => setTimeline(!timeline)}>Timeline</button>}
          {commands && (
            <>
              <button type="button" disabled={!busy} onClick={interrupt} title="I twice, while a cell has the focus">Interrupt</button>
              <button type="button" onClick={restart} title="0 twice, while a cell has the focus">Restart</button>
              <TakeOver session={session} who={who} onChange={setLease} />
              <button type="button" aria-pressed={shell} onClick={() => setShell(!shell)}>Shell</button>
              <button type="button" onClick={() => setShown("attach")}>Attach</button>
            </>
          )}
          {session && <More session={session} may={may} onCompare={() => setShown("compare")} />}
          {hibernated && may && <button type="button" onClick={() => act("POST", "/resume")}>Resume</button>}
          {usable && may && (
            <button type="button" class="danger" onClick={() => act("DELETE", "", "Stop the session? Its files and its notebook stay.")}>Stop</button>
          )}
        </div>
      </div>
      {live && <LeaseBar session={session} who={who} may={may} now={now} onChange={setLease} />}
      {(failed || problem) && <p role="alert" class="problem">{failed || problem}</p>}
      {loaded && executions.length === 0 && !problem && (
        <p class="empty">Nothing has run here yet.{usable && may && " Write code below and press Shift+Enter."}</p>
      )}
      <div class="halves">
        <Cells executions={executions} notes={loaded ? notes : NO_NOTES} earlier={earlier} want={want} target={target} onFile={showFile} keys={keys} live={live} may={may} mover={mover} shells={shells} />
        {live && panel === "variables" && <Variables id={id} ended={ended} busy={busy} may={may} />}
        {session && panel === "files" && <Files session={session} executions={executions} earlier={earlier} onEarlier={wantAll} ended={ended} may={may && live} opened={opened} />}
      </div>
      {timeline && session && <Timeline session={session} executions={executions} used={used} onChoose={(chosen) => setTarget({ id: chosen })} />}
      {shell && live && may && <Shells id={id} headers={() => headersOf(id)} onClose={() => setShell(false)} onOpen={setShells} />}
      <p class="hidden" role="status">{busy ? "Code is running" : "Idle"}</p>
      {usable && may && <Prompt id={id} waiting={waiting} executions={executions} editor={editor} />}
      {shown === "attach" && <Attach id={id} name={who.principal} kept={attached} keep={setAttached} onClose={() => setShown("")} />}
      {shown === "compare" && session && <Choose session={session} onClose={() => setShown("")} />}
    </section>
  );
}

function Memory({ used, limit }: { used: number; limit: number }) {
  return <span title={`${size(used)} of ${size(limit)} in use`}>{size(used)} of {size(limit)}
    <meter class="memory" min={0} max={limit} high={limit * 0.85} value={used} aria-label="Memory" /></span>;
}

/** What is done with a session's record: run it again, go on from it elsewhere, hold it against another. */
function More({ session, may, onCompare }: { session: Session; may: boolean; onCompare: () => void }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const { doing, failed, act } = useAct();
  const choose = (work: () => Promise<unknown> | void) => () => { if (menu.current) menu.current.open = false; void act(async () => work()); };
  const replay = (inputs: string | null) => choose(async () => {
    const made = await ask<{ id: string }>("POST", "/v1/notebooks/replay", { session_id: session.id, inputs, wait: false });
    location.hash = `#/replays/${made.id}`;
  });
  const fork = choose(async () => {
    const made = await ask<Session>("POST", "/v1/sessions", { from: { session: session.id }, name: `${session.name}, a fork`.slice(0, 200) });
    location.hash = `#/sessions/${made.id}`;
  });
  return (
    <>
      <details class="menu" ref={menu} onKeyDown={(event) => {
        if (event.key === "Escape" && menu.current?.open) { menu.current.open = false; menu.current.querySelector("summary")?.focus(); }
      }}>
        <summary>{doing ? "Working" : "More"}</summary>
        <div class="choices">
          {may && <button type="button" disabled={doing} title="Without files but those that its cells make" onClick={replay(null)}>Replay its notebook</button>}
          {may && <button type="button" disabled={doing} title="With a copy of its files as they are now" onClick={replay(session.workspace_id)}>Replay it with its files</button>}
          {may && <button type="button" disabled={doing} onClick={fork}>Fork it as it is now</button>}
          <button type="button" onClick={choose(onCompare)}>Compare with another</button>
          <button type="button" onClick={choose(() => download(`/v1/sessions/${session.id}/notebook`, `${session.name}.ipynb`))}>Download the notebook</button>
        </div>
      </details>
      <Problem text={failed} />
    </>
  );
}

interface PromptProps { id: string; waiting: number; executions: Execution[]; editor: { current: Editor | null } }

function Prompt({ id, waiting, executions, editor }: PromptProps) {
  const place = useRef<HTMLDivElement>(null);
  const known = useRef(executions);
  known.current = executions;
  const [failed, setFailed] = useState("");

  async function run(code: string): Promise<boolean> {
    setFailed("");
    try {
      await ask<Execution>("POST", `/v1/sessions/${id}/executions`, { code, wait: false }, undefined, headersOf(id));
      return true;
    } catch (error) {
      setFailed((error as Failure).message);
      return false;
    }
  }

  useEffect(() => {
    let gone = false;
    // The editor is most of what this page weighs: it comes after the cells.
    void import("./editor").then(({ makeEditor }) => {
      const leave = () => document.querySelector<HTMLElement>(".cells")?.focus();
      const recall = (back: number) => known.current.filter((each) => each.kind === "code").at(-1 - back)?.code;
      if (!gone && place.current) editor.current = makeEditor(place.current, id, { run, leave, recall });
    }).catch(() => setFailed("The editor could not be loaded. Load the page again."));
    return () => { gone = true; editor.current?.destroy(); editor.current = null; };
  }, [id]);

  return (
    <div class="prompt">
      <div ref={place} class="editor" />
      <button type="button" class="main" title="Shift+Enter" onClick={() => void editor.current?.submit()}>Run</button>
      {waiting > 0 && <span class="hint">{waiting} {waiting === 1 ? "waits" : "wait"}</span>}
      {failed && <p role="alert" class="problem">{failed}</p>}
    </div>
  );
}
