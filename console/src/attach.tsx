// Attach: a token for one session, and what to do with it in JupyterLab, VS Code and a terminal.

import { useEffect, useState } from "preact/hooks";
import { all, Copied, Dialog, Problem, useAct, useAnswer } from "./answers";
import { ask } from "./api";
import { useNow, When } from "./time";

interface Token { id: string; name: string; can: string[]; created_at: string; expires_at: string; revoked_at: string | null; token: string | null }

const LIFETIMES: [string, number][] = [["1 hour", 3600], ["8 hours", 28_800], ["7 days", 604_800]];

const HOUR = 3600;

/** A token is made as this opens, since that is what it is opened for; those of longer life or with more rights on request. */
export function Attach({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const [lifetime, setLifetime] = useState(HOUR);
  const [restarts, setRestarts] = useState(false);
  const [made, setMade] = useState<Token | null>(null);
  const { doing, failed, act } = useAct();
  const path = `/v1/sessions/${id}/attach-tokens`;
  const make = (seconds: number, can: string[]) => act(async () => setMade(await ask<Token>("POST", path, { name, ttl_seconds: seconds, can })));
  useEffect(() => void make(HOUR, []), [id]);
  const submit = (event: Event) => { event.preventDefault(); void make(lifetime, restarts ? ["restart"] : []); };
  return (
    <Dialog title="Attach to the live kernel" wide onClose={onClose}>
      <p>What is run from there waits for its turn, and shows here as any other cell.</p>
      {made && <Lines id={id} made={made} />}
      <Problem text={failed} again={() => make(lifetime, restarts ? ["restart"] : [])} />
      <form onSubmit={submit} class="row">
        <label>Lines that count for
          {" "}<select value={lifetime} onChange={(event) => setLifetime(Number(event.currentTarget.value))}>
            {LIFETIMES.map(([text, seconds]) => <option key={seconds} value={seconds}>{text}</option>)}
          </select>
        </label>
        <label><input type="checkbox" checked={restarts} onChange={(event) => setRestarts(event.currentTarget.checked)} /> and may restart the kernel</label>
        <button type="submit" disabled={doing}>Make others</button>
      </form>
      <Tokens path={path} key={made?.id ?? ""} />
      <div class="buttons"><button type="button" class="main" onClick={onClose}>Done</button></div>
    </Dialog>
  );
}

/** They are whole: a terminal needs no account for them, and what they carry reaches this session alone. */
function Lines({ id, made }: { id: string; made: Token }) {
  const now = useNow(15);
  const line = `sandcell attach ${id} --url ${location.origin} --token ${made.token}`;
  return (
    <>
      <Copied label="JupyterLab: in a terminal of the machine that has it" text={`${line} --open`} />
      <Copied label={"VS Code: \u201cSelect Kernel\u201d, \u201cExisting Jupyter Server\u2026\u201d, and this address"} text={`${location.origin}/?token=${made.token}`} />
      <Copied label="A terminal, with jupyter console" text={`${line} --console`} />
      <Copied label="A shell of the sandbox, in a terminal; it asks with your own token" text={`sandcell shell ${id} --url ${location.origin}`} />
      <p class="hint">They carry a token that reaches this session alone, runs out <When time={made.expires_at} now={now} />{made.can.length > 0 && ", may restart the kernel"}, and is shown this once. The command is in <code>pip install &apos;sandcell[console]&apos;</code>.</p>
    </>
  );
}

function Tokens({ path }: { path: string }) {
  const { found, problem, again } = useAnswer((signal) => all<Token>(`${path}?limit=200`, signal), [path]);
  const { doing, failed, act } = useAct();
  const now = useNow(15);
  const counting = (found ?? []).filter((each) => !each.revoked_at && Date.parse(each.expires_at) > now);
  async function revoke(token: Token): Promise<void> {
    await act(() => ask("DELETE", `${path}/${token.id}`));
    again();
  }
  return (
    <>
      <Problem text={problem || failed} again={problem ? again : undefined} />
      {counting.length > 0 && <h3>Who may attach now</h3>}
      <ul class="plain">
        {counting.map((each) => (
          <li key={each.id}>
            {each.name || each.id.slice(0, 8)}{each.can.length > 0 && `, may ${each.can.join(", ")}`}, until <When time={each.expires_at} now={now} />
            {" "}<button type="button" class="quiet" disabled={doing} onClick={() => revoke(each)} aria-label={`Revoke ${each.name || each.id}`}>Revoke</button>
          </li>
        ))}
      </ul>
    </>
  );
}
