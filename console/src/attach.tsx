// Attach: a token for one session, and what to do with it in JupyterLab, VS Code and a terminal.

import { useState } from "preact/hooks";
import { all, Copied, Dialog, Problem, useAct, useAnswer } from "./answers";
import { ask } from "./api";
import { useNow, When } from "./time";

interface Token { id: string; name: string; can: string[]; created_at: string; expires_at: string; revoked_at: string | null; token: string | null }

const LIFETIMES: [string, number][] = [["1 hour", 3600], ["8 hours", 28_800], ["7 days", 604_800]];

export function Attach({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const [lifetime, setLifetime] = useState(3600);
  const [restarts, setRestarts] = useState(false);
  const [made, setMade] = useState<Token | null>(null);
  const { doing, failed, act } = useAct();
  const path = `/v1/sessions/${id}/attach-tokens`;
  const create = (event: Event) => {
    event.preventDefault();
    void act(async () => setMade(await ask<Token>("POST", path, { name, ttl_seconds: lifetime, can: restarts ? ["restart"] : [] })));
  };
  return (
    <Dialog title="Attach to the live kernel" wide onClose={onClose}>
      <p>What is run from there waits for its turn, and shows here as any other cell.</p>
      <Copied label="JupyterLab, on the machine where you have it" text={`sandcell attach ${id} --open`} />
      <Copied label="A terminal there, with jupyter console" text={`sandcell attach ${id} --console`} />
      {made ? <Copied label={"VS Code: \u201cSelect Kernel\u201d, \u201cExisting Jupyter Server\u2026\u201d, and this address, which is shown once"} text={`${location.origin}/?token=${made.token}`} /> : (
        <form onSubmit={create} class="row">
          <label>VS Code and others: an address that counts
            {" "}<select value={lifetime} onChange={(event) => setLifetime(Number(event.currentTarget.value))}>
              {LIFETIMES.map(([text, seconds]) => <option key={seconds} value={seconds}>{text}</option>)}
            </select>
          </label>
          <label><input type="checkbox" checked={restarts} onChange={(event) => setRestarts(event.currentTarget.checked)} /> and may restart the kernel</label>
          <button type="submit" class="main" disabled={doing}>Make it</button>
        </form>
      )}
      <Problem text={failed} />
      <Tokens path={path} key={made?.id ?? ""} />
      <div class="buttons"><button type="button" onClick={onClose}>Done</button></div>
    </Dialog>
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
