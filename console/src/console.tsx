// The frame around all pages: who is signed in, and which page the address names (`#/sessions/ID`).

import { useEffect, useState } from "preact/hooks";
import { ask, onSignedOut, type Who } from "./api";
import { SessionPage } from "./session";
import { Sessions } from "./sessions";
import { SignIn } from "./sign_in";

const LINK = "#sign-in=";

function readAddress(): string {
  return location.hash.replace(/^#/, "") || "/";
}

export function Console() {
  const [who, setWho] = useState<Who | null | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [address, setAddress] = useState(readAddress());

  useEffect(() => {
    const changed = () => (location.hash.startsWith(LINK) ? void begin() : setAddress(readAddress()));
    addEventListener("hashchange", changed);
    const forget = onSignedOut(() => { setWho(null); setProblem("You were signed out. Sign in again to go on."); });
    void begin();
    return () => { removeEventListener("hashchange", changed); forget(); };
  }, []);

  async function begin(): Promise<void> {
    const link = location.hash.startsWith(LINK) ? location.hash.slice(LINK.length) : "";
    // The link counts once, and is to stay neither in the address nor in the history.
    if (link) history.replaceState(null, "", "/");
    setAddress(readAddress());
    try {
      setWho(await (link ? ask<Who>("POST", "/console/sign-in", { link }) : ask<Who>("GET", "/console/sign-in")));
    } catch (error) {
      if (link) setProblem((error as Error).message);
      setWho(null);
    }
  }

  async function signOut(): Promise<void> {
    await ask("DELETE", "/console/sign-in").catch(() => undefined);
    setProblem("");
    setWho(null);
  }

  if (who === undefined) return null;
  if (who === null) return <SignIn problem={problem} onSignedIn={(found) => { setProblem(""); setWho(found); }} />;
  const session = /^\/sessions\/([^/]+)$/.exec(address)?.[1];
  return (
    <>
      <header class="top">
        <a class="brand" href="#/">Sandcell</a>
        <nav aria-label="Pages"><a href="#/" aria-current={session ? undefined : "page"}>Sessions</a></nav>
        <span class="who">{who.principal}{who.scope === "read" && " (may look only)"}</span>
        <button type="button" class="quiet" onClick={signOut}>Sign out</button>
      </header>
      <main>
        {session ? <SessionPage key={session} id={session} may={who.scope !== "read"} />
          : <Sessions may={who.scope !== "read"} />}
      </main>
    </>
  );
}
