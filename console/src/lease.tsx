// Leases: a person has the session to themselves for a while; what agents run meanwhile waits, and says for whom.

import { useEffect } from "preact/hooks";
import { Problem, useAct } from "./answers";
import { ask, type Session, type Who } from "./api";
import { When } from "./time";

const LEASE_SECONDS = 900;
const RENEW_SECONDS = 300;
/** The ids of leases that this page has taken, by session: who names one runs code meanwhile. */
const taken = new Map<string, string>();

type Lease = NonNullable<Session["lease"]>;

/** What an execution of this page's says, so that it runs while the page has the session to itself. */
export function headersOf(session: string): Record<string, string> {
  const lease = taken.get(session);
  return lease === undefined ? {} : { "Sandcell-Lease": lease };
}

async function take(session: string, name: string): Promise<Lease> {
  const lease = await ask<Lease & { id: string }>("POST", `/v1/sessions/${session}/lease`, { seconds: LEASE_SECONDS, name }, undefined, headersOf(session));
  taken.set(session, lease.id);
  return lease;
}

interface LeaseProps { session: Session; who: Who; may: boolean; now: number; onChange: (lease: Session["lease"]) => void }

export function LeaseBar({ session, who, may, now, onChange }: LeaseProps) {
  const { id, lease } = session;
  // Of one that has ended the id says nothing, and an answer from before it began ends none.
  const mine = lease !== null && lease.holder === who.principal && taken.has(id);
  const { doing, failed, act } = useAct();

  useEffect(() => {
    if (!mine) return;
    const timer = setInterval(() => void act(async () => onChange(await take(id, who.principal))), RENEW_SECONDS * 1000);
    return () => clearInterval(timer);
  }, [id, mine]);

  const end = () => act(async () => { await ask("DELETE", `/v1/sessions/${id}/lease`); taken.delete(id); onChange(null); });
  if (lease === null) return null;
  return (
    <div class={mine ? "lease mine" : "lease"}>
      <span role="status">
        {mine ? <>You have this session to yourself. What others run waits, and they are told for whom.</>
          : <><b>{lease.holder}</b> has this session to themselves; what you run waits. It ends <When time={lease.expires_at} now={now} />.</>}
      </span>
      {may && <button type="button" disabled={doing} onClick={end}>{mine ? "Give back" : "End it"}</button>}
      <Problem text={failed} />
    </div>
  );
}

export function TakeOver({ session, who, onChange }: Pick<LeaseProps, "session" | "who" | "onChange">) {
  const { doing, failed, act } = useAct();
  const begin = () => act(async () => onChange(await take(session.id, who.principal)));
  return (
    <>
      <button type="button" disabled={doing || session.lease !== null} onClick={begin} title="What agents run waits until you give it back">Take over</button>
      <Problem text={failed} />
    </>
  );
}
