// Code that has run, in the colours of its language once what finds them is loaded: at first it shows without. And by what
// number its cell is named.

import type { Parser } from "@lezer/common";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Execution } from "./api";

/** Longer code shows without colours: each is an element of its own. */
const MOST_COLOURED = 20_000;
/** A cell in another language, as IPython has them: `%%bash`. After the others comes Python. */
const FOREIGN = /^\s*%%(?!capture|prun|time)/;

/** By language, and what is not loaded yet is not in it; null: there is none for that one. */
const parsers = new Map<string, Parser | null>();
let colour: typeof import("./colours").colour;

async function load(language: string): Promise<void> {
  const found = await import("./colours");
  parsers.set(language, await found.findParser(language));
  ({ colour } = found);
}

export function Code({ of: { code, language, kind } }: { of: Pick<Execution, "code" | "language" | "kind"> }) {
  const [, setLoaded] = useState("");
  const command = kind === "command";
  const plain = command || code.length > MOST_COLOURED || (language === "python" && FOREIGN.test(code));
  const parser = plain ? null : parsers.get(language);
  useEffect(() => {
    let gone = false;
    // Without colours it can be read as well.
    if (parser === undefined && !command) void load(language).then(() => { if (!gone) setLoaded(language); }).catch(() => undefined);
    return () => { gone = true; };
  }, [language, parser, command]);
  const pieces = useMemo(() => (parser ? colour(code, parser) : null), [code, parser]);
  return (
    <pre class="code" tabIndex={0} aria-label={command ? "Shell command" : `Code, ${language}`}>
      {language !== "python" && !command && <span class="language">{language}</span>}
      {command && <span class="prompt-sign" aria-hidden="true">$ </span>}
      {pieces?.map(({ text, classes }, at) => (classes ? <span key={at} class={classes}>{text}</span> : text)) ?? code}
    </pre>
  );
}

/** The number of a cell in the notebook, by which forks and replays name it, and under it the kernel's own count, which tracebacks name. */
export function Numbers({ number, of }: { number: number | string | null; of?: Execution }) {
  const count = of?.execution_count ?? (of?.kind === "code" && of.status === "running" ? "*" : null);
  const title = [number !== null && `Cell ${number} of the notebook`, of?.execution_count != null && `In [${of.execution_count}] of its kernel`, of?.id];
  return (
    <span class="count" title={title.filter(Boolean).join(", ")}>
      <b>{number ?? "\u00a0"}</b>
      {count !== null && <span>[{count}]</span>}
    </span>
  );
}

/** A cell in a sentence; the first seconds after its end the notebook has no number for it. */
export function nameCell({ cell, id }: Pick<Execution, "cell" | "id">, noun = "cell"): string {
  return `${noun} ${cell ?? id.slice(0, 8)}`;
}

/** As the shell would say it; nothing of one that was ended by a signal, or goes on. */
export function Exit({ code }: { code: number | null }) {
  return code === null ? null : <span class={code === 0 ? "exit" : "exit bad"} title="Its exit code">exit {code}</span>;
}

/** A command has no kernel that could die: it was lost with its sandbox. */
export function explainDeath({ kind, death }: Execution): string {
  return kind === "command" ? `The command was cut off: ${death!.detail}` : `The kernel died (${death!.cause}): ${death!.detail}`;
}
