// The frame around all pages: who is signed in, and which page the address names (`#/sessions/ID`).

import { useEffect, useState } from "preact/hooks";
import { later } from "./answers";
import { ask, onSignedOut, type Failure, type Who } from "./api";
import { SessionPage } from "./session";
import { Sessions } from "./sessions";
import { Offer, SignIn, type Offered } from "./sign_in";

const Environments = later(async () => (await import("./environments")).Environments);
const EnvironmentPage = later(async () => (await import("./environments")).EnvironmentPage);
const Operations = later(async () => (await import("./operations")).Operations);
const ReplayPage = later(async () => (await import("./replay")).ReplayPage);
const Compare = later(async () => (await import("./compare")).Compare);
const LINK = "#sign-in=";
const SECTIONS: [string, string][] = [["Sessions", ""], ["Environments", "environments"], ["Operations", "operations/usage"]];

function readAddress(): string {
  return location.hash.replace(/^#/, "") || "/";
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // nobody's link of this page
  }
}

async function lookAt(link: string): Promise<{ owner?: Who; problem?: string }> {
  try {
    return { owner: await ask<Who>("POST", "/console/links", { link }) };
  } catch (error) {
    return { problem: (error as Failure).message };
  }
}

/** Back from the identity provider: anybody can have made the address, so of an error its code alone is said. */
async function finish(answer: URLSearchParams): Promise<Who> {
  const code = answer.get("code");
  if (!code) throw new Error(`You were not signed in: ${answer.get("error")?.match(/^[a-z_]{1,40}$/)?.[0] ?? "the provider does not say why"}.`);
  return ask<Who>("POST", "/console/sign-in", { code, state: answer.get("state") });
}

export function Console() {
  const [who, setWho] = useState<Who | null | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [offered, setOffered] = useState<Offered | null>(null);
  const [stays, setStays] = useState<{ text: string; again: () => void } | null>(null);
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
    const answer = new URLSearchParams(location.search);
    // A link and a provider's code count once, and are to stay neither in the address nor in the history.
    if (link || location.search) history.replaceState(null, "", "/");
    setAddress(readAddress());
    setProblem("");
    let failed = "";
    try {
      if (answer.has("state")) { setWho(await finish(answer)); return; }
    } catch (error) {
      failed = (error as Error).message;
    }
    try {
      setWho(await ask<Who>("GET", "/console/sign-in"));
    } catch (error) {
      setProblem(failed || ((error as Failure).status === 401 ? "" : (error as Failure).message));
      setWho(null);
    }
    // Whoever made the link may not be who opens it: nobody is signed in by it before they have said so.
    if (link) setOffered({ link, ...(await lookAt(link)) });
  }

  async function lookAtPrincipal(principal: string): Promise<void> {
    setStays(null);
    try {
      setWho(await ask<Who>("PUT", "/console/sign-in", { principal }));
      location.hash = "#/";
    } catch (error) {
      setStays({ text: (error as Error).message, again: () => lookAtPrincipal(principal) });
    }
  }

  async function signOut(): Promise<void> {
    setStays(null);
    try {
      await ask("DELETE", "/console/sign-in");
    } catch (error) {
      if ((error as Failure).status !== 401) {
        setStays({ text: `You are still signed in: ${(error as Failure).message}`, again: signOut });
        return;
      }
    }
    setProblem("");
    setWho(null);
  }

  if (who === undefined) return null;
  if (offered) {
    const answer = (found: Who | null) => { setOffered(null); if (found) { setProblem(""); setWho(found); } };
    return <Offer offered={offered} who={who} onAnswer={answer} />;
  }
  if (who === null) return <SignIn problem={problem} onSignedIn={(found) => { setProblem(""); setWho(found); }} />;
  const [, section = "", ...rest] = address.split("/").map(decode);
  return (
    <>
      <header class="top">
        <a class="brand" href="#/">Sandcell</a>
        <nav aria-label="Pages">
          {SECTIONS.map(([name, path]) => (
            <a key={path} href={`#/${path}`} aria-current={(path.split("/")[0] === section) ? "page" : undefined}>{name}</a>
          ))}
        </nav>
        <WhoIs who={who} onLookAt={lookAtPrincipal} />
        <button type="button" class="quiet" title={`${who.person || who.principal} is signed in`} onClick={signOut}>Sign out</button>
      </header>
      {stays && (
        <p role="alert" class="problem">{stays.text} <button type="button" onClick={stays.again}>Try again</button></p>
      )}
      <main key={who.principal}>
        <PageAt section={section} rest={rest} who={who} />
      </main>
    </>
  );
}

/** Who is signed in, and at whose things they look: their own, or those of another whom their role names. */
function WhoIs({ who, onLookAt }: { who: Who; onLookAt: (principal: string) => void }) {
  const own = who.person || who.principal;
  return (
    <span class="who">
      {own}
      {who.looks_at.length > 0 && (
        <>{" looks at "}
          <select aria-label="Whose sessions show" value={who.person ? who.principal : ""} onChange={(event) => onLookAt(event.currentTarget.value)}>
            <option value="">their own</option>
            {who.looks_at.map((each) => <option key={each} value={each}>{each}</option>)}
          </select>
        </>
      )}
      {who.scope === "read" && " (may look only)"}
    </span>
  );
}

function PageAt({ section, rest: [first = "", second = ""], who }: { section: string; rest: string[]; who: Who }) {
  const may = who.scope !== "read";
  if (section === "sessions" && first) return <SessionPage key={first} id={first} who={who} />;
  if (section === "environments") return first ? <EnvironmentPage key={first} id={first} may={may} /> : <Environments may={may} />;
  if (section === "operations") return <Operations part={first || "usage"} who={who} />;
  if (section === "replays" && first) return <ReplayPage key={first} id={first} may={may} />;
  if (section === "compare" && second) return <Compare key={`${first} ${second}`} left={first} right={second} />;
  return <Sessions may={may} who={who} />;
}
