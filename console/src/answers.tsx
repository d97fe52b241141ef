// What a page asks for when it opens and again later; what somebody does on it; dialogs; pages that load when needed.

import type { ComponentChildren, ComponentType } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { pages } from "./api";

export interface Answer<T> { found: T | null; problem: string; again: () => void }

/**
 * The answer to a question: another one when one of `keys` is another; asked again when `change` is, by `again`, and every
 * few seconds while the page is looked at.
 */
export function useAnswer<T>(get: (signal: AbortSignal) => Promise<T>, keys: unknown[], everySeconds = 0, change: unknown = 0): Answer<T> {
  const [found, setFound] = useState<T | null>(null);
  const [problem, setProblem] = useState("");
  const [round, setRound] = useState(0);
  useEffect(() => { setFound(null); setProblem(""); }, keys);
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      try {
        const answer = await get(stop.signal);
        if (!stop.signal.aborted) { setFound(answer); setProblem(""); }
      } catch (error) {
        if (!stop.signal.aborted) setProblem((error as Error).message);
      }
    };
    const look = () => { if (document.visibilityState === "visible") void load(); };
    void load();
    const timer = everySeconds > 0 ? setInterval(look, everySeconds * 1000) : undefined;
    return () => { stop.abort(); clearInterval(timer); };
  }, [...keys, round, everySeconds, change]);
  return { found, problem, again: () => setRound((count) => count + 1) };
}

/** The items of a list, page by page, up to so many. */
export async function all<T>(path: string, signal?: AbortSignal, most = 5000): Promise<T[]> {
  const found: T[] = [];
  for await (const page of pages<T>(path, signal)) {
    found.push(...page);
    if (found.length >= most) break;
  }
  return found;
}

export interface Act { doing: boolean; failed: string; act: (work: () => Promise<unknown>) => Promise<boolean> }

/** Something that somebody does: whether it goes on, and why it could not be done. */
export function useAct(): Act {
  const [doing, setDoing] = useState(false);
  const [failed, setFailed] = useState("");
  async function act(work: () => Promise<unknown>): Promise<boolean> {
    setDoing(true);
    setFailed("");
    try {
      await work();
      return true;
    } catch (error) {
      setFailed((error as Error).message);
      return false;
    } finally {
      setDoing(false);
    }
  }
  return { doing, failed, act };
}

export function Problem({ text, again }: { text: string; again?: () => void }) {
  if (!text) return null;
  return <p role="alert" class="problem">{text} {again && <button type="button" onClick={again}>Try again</button>}</p>;
}

export function Dialog({ title, wide, onClose, children }:
  { title: string; wide?: boolean; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class={wide ? "wide" : ""} onClose={onClose} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/** A secret, or a line to type elsewhere, with a button that copies it. */
export function Copied({ label, text }: { label: string; text: string }) {
  const [done, setDone] = useState("");
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  async function copy(): Promise<void> {
    field.current?.select();
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
    } catch {
      setDone("Press Ctrl+C to copy it"); // without HTTPS a browser may have no clipboard for pages
    }
  }
  return (
    <div class="copied">
      <label for={id}>{label}</label>
      <input id={id} ref={field} readOnly value={text} onFocus={(event) => event.currentTarget.select()} />
      <button type="button" onClick={copy} aria-label={`Copy: ${label}`}>Copy</button>
      <span role="status" class="hint">{done}</span>
    </div>
  );
}

/** A page that is loaded when it is first shown. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let known: ComponentType<P> | null = null;
  return function Later(props: P) {
    const [Page, setPage] = useState<ComponentType<P> | null>(() => known);
    const [failed, setFailed] = useState("");
    useEffect(() => {
      if (known) return;
      load().then((page) => { known = page; setPage(() => page); }, () => setFailed("This page could not be loaded."));
    }, []);
    if (Page) return <Page {...props} />;
    return <Problem text={failed} again={() => location.reload()} />;
  };
}
