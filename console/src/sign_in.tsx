import { useEffect, useState } from "preact/hooks";
import { ask, type Who } from "./api";

export function SignIn({ problem, onSignedIn }: { problem: string; onSignedIn: (who: Who) => void }) {
  const [token, setToken] = useState("");
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const [provider, setProvider] = useState("");
  useEffect(() => { ask<{ name: string }>("GET", "/console/provider").then(({ name }) => setProvider(name), () => undefined); }, []);

  async function leave(): Promise<void> {
    setBusy(true);
    try {
      location.assign((await ask<{ url: string }>("POST", "/console/provider")).url);
    } catch (error) {
      setRefused((error as Error).message);
      setBusy(false);
    }
  }

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      onSignedIn(await ask<Who>("POST", "/console/sign-in", { token: token.trim() }));
    } catch (error) {
      const failure = error as { status?: number; message: string };
      setRefused(failure.status === 401 ? "This token does not count here. Is it whole, and not revoked?" : failure.message);
    } finally {
      setBusy(false);
    }
  }

  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1>Sandcell</h1>
        {provider && <button type="button" class="main" disabled={busy} onClick={leave}>Sign in by {provider}</button>}
        <label for="token">{provider ? "Or with a token" : "Token"}</label>
        <input id="token" type="password" autocomplete="off" spellcheck={false} autofocus required value={token}
          aria-describedby="help" onInput={(event) => setToken(event.currentTarget.value)} />
        <p role="alert" class="problem">{refused || problem}</p>
        <button type="submit" class={provider ? "" : "main"} disabled={busy}>{busy ? "Signing in" : "Sign in"}</button>
        <p id="help" class="hint">
          <code>sandcell console</code> opens this page signed in. <code>sandcell serve</code> printed the first token;
          an administrator makes others with <code>sandcell token create</code>. You stay signed in for 8 hours.
        </p>
      </form>
    </main>
  );
}

/** A link and whom it signs in, or why it signs in nobody. */
export interface Offered { link: string; owner?: Who; problem?: string }

interface OfferProps { offered: Offered; who: Who | null; onAnswer: (who: Who | null) => void }

export function Offer({ offered, who, onAnswer }: OfferProps) {
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const { owner } = offered;

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      onAnswer(await ask<Who>("POST", "/console/sign-in", { link: offered.link }));
    } catch (error) {
      setRefused((error as Error).message);
      setBusy(false);
    }
  }

  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1>Sandcell</h1>
        {owner && (
          <p>{who ? <>You are <b>{who.principal}</b>; this link signs you in as <b>{owner.principal}</b>.</>
            : <>This link signs you in as <b>{owner.principal}</b>.</>}</p>
        )}
        <p role="alert" class="problem">{refused || offered.problem}</p>
        {owner && !refused && (
          <button type="submit" class="main" autofocus disabled={busy}>{busy ? "Signing in" : `Sign in as ${owner.principal}`}</button>
        )}
        <button type="button" class="quiet" onClick={() => onAnswer(null)}>{who ? `Stay ${who.principal}` : "Use a token instead"}</button>
        <p class="hint">Go on only if you asked for this link yourself, by <code>sandcell console</code>.</p>
      </form>
    </main>
  );
}
