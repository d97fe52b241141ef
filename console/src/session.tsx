// One session: its cells as they run, a cell to run, and the kernel's verbs.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type Execution, type Failure, type Session } from "./api";
import { Cells } from "./cells";
import type { Editor } from "./editor";
import { useExecutions } from "./executions";
import { Files } from "./files";
import { State } from "./sessions";
import { size, useNow, When } from "./time";
import { Variables } from "./variables";

const USAGE_SECONDS = 20;

export function SessionPage({ id, may }: { id: string; may: boolean }) {
  const { executions, loaded, problem, changes } = useExecutions(id);
  const [session, setSession] = useState<Session | null>(null);
  const [failed, setFailed] = useState("");
  const [panel, setPanel] = useState<"" | "variables" | "files">("");
  const now = useNow(5);
  const busy = executions.some((each) => each.status === "running");
  const waiting = executions.filter((each) => each.status === "queued").length;
  const ended = executions.filter((each) => each.ended_at).length;
  const live = session?.status === "READY";
  const hibernated = session?.status === "HIBERNATED";
  const usable = live || hibernated;

  useEffect(() => {
    const stop = new AbortController();
    const load = () => {
      if (document.visibilityState !== "visible") return;
      ask<Session>("GET", `/v1/sessions/${id}`, undefined, stop.signal).then(setSession).catch(() => undefined);
    };
    load();
    const timer = session && !usable ? undefined : setInterval(load, USAGE_SECONDS * 1000);
    return () => { stop.abort(); clearInterval(timer); };
  }, [id, changes, busy, usable]);
  useEffect(() => { if (session) document.title = `${session.name} · Sandcell`; }, [session?.name]);

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

  return (
    <section class="session" aria-label="Session">
      <div class="bar">
        <a href="#/" class="back" aria-label="All sessions">←</a>
        <h1>{session?.name ?? "Session"}</h1>
        {session && (
          <>
            <State session={session} now={now} />
            <span class="hint facts">
              {session.environment}{session.agent && ` · ${session.agent}`} · started <When time={session.created_at} now={now} />
              {live && session.usage.memory_limit_bytes > 0 && (
                <> · <Memory used={session.usage.memory_bytes} limit={session.usage.memory_limit_bytes} /></>
              )}
            </span>
          </>
        )}
        <span class="grow" />
        {live && (["variables", "files"] as const).map((each) => (
          <button type="button" key={each} aria-pressed={panel === each} onClick={() => setPanel(panel === each ? "" : each)}>
            {each === "variables" ? "Variables" : "Files"}
          </button>
        ))}
        {live && may && (
          <>
            <button type="button" disabled={!busy} onClick={() => act("POST", "/interrupt")}>Interrupt</button>
            <button type="button" onClick={() => act("POST", "/restart", "Restart the kernel? Its variables are lost; files stay.")}>Restart</button>
          </>
        )}
        {hibernated && may && <button type="button" onClick={() => act("POST", "/resume")}>Resume</button>}
        {usable && may && (
          <button type="button" class="danger" onClick={() => act("DELETE", "", "Stop the session? Its files and its notebook stay.")}>Stop</button>
        )}
      </div>
      {(failed || problem) && <p role="alert" class="problem">{failed || problem}</p>}
      {loaded && executions.length === 0 && !problem && (
        <p class="empty">Nothing has run here yet.{usable && may && " Write code below and press Shift+Enter."}</p>
      )}
      <div class="halves">
        <Cells executions={executions} />
        {live && panel === "variables" && <Variables id={id} ended={ended} />}
        {live && panel === "files" && <Files id={id} ended={ended} may={may} />}
      </div>
      <p class="hidden" role="status">{busy ? "Code is running" : "Idle"}</p>
      {session?.ended && <p class="note">This session ended <When time={session.ended.at} now={now} />: {session.ended.detail || session.ended.reason}.</p>}
      {usable && may && <Prompt id={id} waiting={waiting} />}
    </section>
  );
}

function Memory({ used, limit }: { used: number; limit: number }) {
  return <span title={`${size(used)} of ${size(limit)} in use`}>{size(used)} of {size(limit)}
    <meter class="memory" min={0} max={limit} high={limit * 0.85} value={used} aria-label="Memory" /></span>;
}

function Prompt({ id, waiting }: { id: string; waiting: number }) {
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const [failed, setFailed] = useState("");

  async function run(code: string): Promise<boolean> {
    if (!code.trim()) return false;
    setFailed("");
    try {
      await ask<Execution>("POST", `/v1/sessions/${id}/executions`, { code, wait: false });
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
      if (!gone && place.current) editor.current = makeEditor(place.current, id, run);
    }).catch(() => setFailed("The editor could not be loaded. Load the page again."));
    return () => { gone = true; editor.current?.destroy(); };
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
