// Attach: a token for one session, and what to do with it in JupyterLab, VS Code and a terminal.

import { useEffect, useState } from "preact/hooks";
import { all, Copied, Dialog, Problem, useAct, useAnswer } from "./answers";
import { ask } from "./api";
import { useNow, When } from "./time";

export interface AttachToken { id: string; name: string; can: string[]; created_at: string; expires_at: string; revoked_at: string | null; token: string | null }

const HOUR = 3600;
const LIFETIMES: [string, number][] = [["1 hour", HOUR], ["8 hours", 8 * HOUR], ["7 days", 168 * HOUR]];

export interface AttachProps { id: string; name: string; kept: AttachToken | null; keep: (token: AttachToken | null) => void; onClose: () => void }

/** A token is made as this opens, since that is what it is opened for, unless one that was `kept` still counts. */
export function Attach({ id, name, kept, keep, onClose }: AttachProps) {
  const [lifetime, setLifetime] = useState(HOUR);
  const [restarts, setRestarts] = useState(false);
  const [opened, setOpened] = useState(false);
  const { doing, failed, act } = useAct();
  const now = useNow(15);
  const path = `/v1/sessions/${id}/attach-tokens`;
  const { found: tokens, problem, again } = useAnswer((signal) => all<AttachToken>(`${path}?limit=200`, signal), [path]);
  const counting = (tokens ?? []).filter((each) => !each.revoked_at && Date.parse(each.expires_at) > now);
  const make = (seconds: number, can: string[]) => act(async () => {
    keep(await ask<AttachToken>("POST", path, { name, ttl_seconds: seconds, can }));
    again();
  });
  useEffect(() => {
    if (!tokens || opened) return;
    setOpened(true);
    if (counting.some((each) => each.id === kept?.id)) return;
    keep(null);
    void make(HOUR, []);
  }, [tokens]);
  const submit = (event?: Event) => { event?.preventDefault(); void make(lifetime, restarts ? ["restart"] : []); };
  const revoke = (token: AttachToken) => act(async () => {
    await ask("DELETE", `${path}/${token.id}`);
    if (token.id === kept?.id) keep(null);
    again();
  });
  return (
    <Dialog title="Attach to the live kernel" wide onClose={onClose}>
      <p>What is run from there waits for its turn, and shows here as any other cell.</p>
      {opened && kept && Date.parse(kept.expires_at) > now && <Lines id={id} made={kept} now={now} />}
      <Problem text={problem} again={again} />
      <Problem text={failed} again={submit} />
      <form onSubmit={submit} class="row">
        <label>Lines that count for
          {" "}<select value={lifetime} onChange={(event) => setLifetime(Number(event.currentTarget.value))}>
            {LIFETIMES.map(([text, seconds]) => <option key={seconds} value={seconds}>{text}</option>)}
          </select>
        </label>
        <label><input type="checkbox" checked={restarts} onChange={(event) => setRestarts(event.currentTarget.checked)} /> and may restart the kernel</label>
        <button type="submit" disabled={doing}>{kept ? "Make others" : "Make them"}</button>
      </form>
      {counting.length > 0 && <h3>Who may attach now</h3>}
      <ul class="plain">
        {counting.map((each) => (
          <li key={each.id}>
            {each.name || each.id.slice(0, 8)}{each.can.length > 0 && `, may ${each.can.join(", ")}`}, ends <When time={each.expires_at} now={now} />
            {" "}<button type="button" class="quiet" disabled={doing} onClick={() => revoke(each)} aria-label={`Revoke ${each.name || each.id}`}>Revoke</button>
          </li>
        ))}
      </ul>
      <div class="buttons"><button type="button" class="main" onClick={onClose}>Done</button></div>
    </Dialog>
  );
}

/** They are whole: a terminal needs no account for them, and what they carry reaches this session alone. */
function Lines({ id, made, now }: { id: string; made: AttachToken; now: number }) {
  const line = `sandcell attach ${id} --url ${location.origin} --token ${made.token}`;
  return (
    <>
      <Copied label="JupyterLab: in a terminal of the machine that has it" text={`${line} --open`} />
      <Copied label={"VS Code: \u201cSelect Kernel\u201d, \u201cExisting Jupyter Server\u2026\u201d, and this address"} text={`${location.origin}/?token=${made.token}`} />
      <Copied label="A terminal, with jupyter console" text={`${line} --console`} />
      <Copied label="A shell of the sandbox, in a terminal; it asks with your own token" text={`sandcell shell ${id} --url ${location.origin}`} />
      <p class="hint">They carry a token that reaches this session alone, runs out <When time={made.expires_at} now={now} />{made.can.length > 0 && ", may restart the kernel"}, and is gone from here with this page. The command is in <code>pip install &apos;sandcell[console]&apos;</code>.</p>
    </>
  );
}
