// What code puts out. Text and pictures are shown here; HTML in a frame of its own, from which nothing gets out.

import { memo } from "preact/compat";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { parseAnsi } from "./ansi";
import type { Output, Text } from "./api";

const LINES_SHOWN = 400;
const MOST_CHARACTERS = 100_000;
const MOST_FRAME_HEIGHT = 1200;
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

export function join(text: Text | undefined): string {
  return Array.isArray(text) ? text.join("") : text ?? "";
}

export const Outputs = memo(function Outputs({ outputs }: { outputs: Output[] }) {
  return <>{merge(outputs).map((each, at) => <One key={at} output={each} />)}</>;
});

/** Streams as one text each, where nothing is between their pieces. */
export function merge(outputs: Output[]): Output[] {
  const merged: Output[] = [];
  for (const each of outputs) {
    const before = merged.at(-1);
    if (each.output_type === "stream" && before?.output_type === "stream" && before.name === each.name) {
      merged[merged.length - 1] = { ...before, text: join(before.text) + join(each.text) };
    } else merged.push(each);
  }
  return merged;
}

function One({ output }: { output: Output }) {
  if (output.output_type === "stream") return <Terminal text={join(output.text)} error={output.name === "stderr"} />;
  if (output.output_type === "error") {
    const traceback = output.traceback?.length ? output.traceback.join("\n") : `${output.ename}: ${output.evalue}`;
    return <div class="failed" role="group" aria-label="Error"><Terminal text={traceback} /></div>;
  }
  return <Rich data={output.data ?? {}} />;
}

export function Terminal({ text, error }: { text: string; error?: boolean }) {
  const [whole, setWhole] = useState(false);
  const some = text.length > MOST_CHARACTERS ? text.slice(0, MOST_CHARACTERS) : text;
  const beyond = text.length - some.length;
  const [shown, hidden] = useMemo(() => cut(some, whole), [some, whole]);
  const spans = useMemo(() => parseAnsi(shown), [shown]);
  return (
    <div class={error ? "text stderr" : "text"}>
      <pre tabIndex={0}>{spans.map((each, at) => each.classes || each.colour || each.background
        ? <span key={at} class={each.classes} style={{ color: each.colour, background: each.background }}>{each.text}</span>
        : each.text)}</pre>
      {hidden > 0 && <button type="button" class="quiet" onClick={() => setWhole(true)}>{hidden.toLocaleString()} more lines</button>}
      {beyond > 0 && <p class="hint">{beyond.toLocaleString()} more characters are in the session's notebook.</p>}
    </div>
  );
}

function cut(text: string, whole: boolean): [string, number] {
  if (whole) return [text, 0];
  let at = -1;
  for (let line = 0; line < LINES_SHOWN; line += 1) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) return [text, 0];
  }
  const hidden = text.slice(at + 1).split("\n").length - (text.endsWith("\n") ? 1 : 0);
  return hidden > 0 ? [text.slice(0, at), hidden] : [text, 0];
}

function Rich({ data }: { data: Record<string, unknown> }) {
  const text = (type: string) => (type in data ? join(data[type] as Text) : undefined);
  const alternative = text("text/plain") ?? "A picture that the code has shown";
  const html = text("text/html");
  if (html !== undefined) return <Frame html={html} />;
  const svg = text("image/svg+xml");
  // As a picture: a browser runs no script of it and loads nothing that it names.
  if (svg !== undefined) return <img class="picture" alt={alternative} src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`} />;
  for (const type of PICTURES) {
    const found = text(type);
    if (found !== undefined) return <img class="picture" alt={alternative} src={`data:${type};base64,${found.replace(/\s/g, "")}`} />;
  }
  const plain = text("text/markdown") ?? text("text/latex") ?? text("text/plain");
  if (plain !== undefined) return <Terminal text={plain} />;
  if ("application/json" in data) return <Terminal text={JSON.stringify(data["application/json"], null, 2)} />;
  return <p class="hint">An output that this page cannot show: {Object.keys(data).join(", ") || "nothing"}.</p>;
}

export function Frame({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(60);
  const ready = useRef(false);
  // Before the browser paints, so that nothing the frame says is missed. Its origin is none: no name for the target.
  useLayoutEffect(() => {
    const show = () => frame.current?.contentWindow?.postMessage({ html }, "*");
    const hear = (event: MessageEvent) => {
      if (event.source === null || event.source !== frame.current?.contentWindow) return;
      if (event.data?.ready === true) { ready.current = true; show(); }
      const wanted = Number(event.data?.height);
      if (wanted >= 0) setHeight(Math.min(Math.ceil(wanted), MOST_FRAME_HEIGHT));
    };
    addEventListener("message", hear);
    if (ready.current) show();
    return () => removeEventListener("message", hear);
  }, [html]);
  return <iframe ref={frame} class="frame" title="Output" sandbox="allow-scripts" src="/console/output.html" style={{ height: `${height}px` }} />;
}
