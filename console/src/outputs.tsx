// What code puts out. Text and pictures are shown here; HTML in a frame of its own, from which nothing gets out.

import { createContext, type TargetedEvent } from "preact";
import { memo } from "preact/compat";
import { useContext, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { MOST_SPANS, parseAnsi, type Span } from "./ansi";
import { stateOf, viewOf, type Output, type Text } from "./api";
import type { Given, Move } from "./frames/talk";
import { readMove } from "./moves";

const LINES_SHOWN = 400;
const NEAR_END = 8;
const MOST_CHARACTERS = 100_000;
const MOST_FRAME_HEIGHT = 1200;
const MOST_FIGURE_CHARACTERS = 8_000_000;
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** `application/vnd.vegalite.v5+json`, and as Altair 6 has it, `application/vnd.vegalite.v6.json`. */
const VEGA = /^application\/vnd\.vega(lite)?\.v[\d.]+[+.]json$/;
const TITLES = { output: "Output", prose: "Text with formulas", plotly: "Figure", vega: "Chart", widgets: "Widget" };

export function join(text: Text | undefined): string {
  return Array.isArray(text) ? text.join("") : text ?? "";
}

/** Of what is still coming the end shows. */
export const Outputs = memo(function Outputs({ outputs, coming }: { outputs: Output[]; coming?: boolean }) {
  return <>{merge(outputs).map((each, at) => <One key={at} output={each} coming={coming} />)}</>;
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

function One({ output, coming }: { output: Output; coming?: boolean }) {
  if (output.output_type === "stream") return <Terminal text={join(output.text)} error={output.name === "stderr"} atEnd={coming} />;
  if (output.output_type === "error") {
    const traceback = output.traceback?.length ? output.traceback.join("\n") : `${output.ename}: ${output.evalue}`;
    return <div class="failed" role="group" aria-label="Error"><Terminal text={traceback} atEnd /></div>;
  }
  return <Rich data={output.data ?? {}} />;
}

interface TerminalProps { text: string; error?: boolean; atEnd?: boolean }

/** `atEnd`: its end shows, and goes on doing so until somebody scrolls away from it. */
export function Terminal({ text, error, atEnd = false }: TerminalProps) {
  const [whole, setWhole] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(atEnd);
  const { head, tail, lines, characters } = useMemo(() => cut(text, whole), [text, whole]);
  useLayoutEffect(() => { if (follows.current) box.current!.scrollTop = box.current!.scrollHeight; }, [text]);
  const look = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }: TargetedEvent<HTMLElement>) =>
    { follows.current = atEnd && scrollHeight - scrollTop - clientHeight < NEAR_END; };
  return (
    <div ref={box} class={error ? "text stderr" : "text"} tabIndex={0} onScroll={look}>
      <Coloured text={head} spans={tail ? MOST_SPANS / 2 : MOST_SPANS} />
      {lines > 0 && <button type="button" class="quiet" onClick={() => setWhole(true)}>{lines.toLocaleString()} more lines</button>}
      {characters > 0 && <p class="hint">{characters.toLocaleString()} more characters are in the session's notebook.</p>}
      {tail && <Coloured text={tail} spans={MOST_SPANS / 2} />}
    </div>
  );
}

const Coloured = memo(function Coloured({ text, spans }: { text: string; spans: number }) {
  return <pre><Spans of={parseAnsi(text, spans)} /></pre>;
});

export function Spans({ of }: { of: Span[] }) {
  return <>{of.map((each, at) => each.classes || each.colour || each.background
    ? <span key={at} class={each.classes} style={{ color: each.colour, background: each.background }}>{each.text}</span>
    : each.text)}</>;
}

/** The first lines of a text and its last ones, how many lines are between them, and how many characters will not show. */
export function cut(text: string, whole: boolean): { head: string; tail: string; lines: number; characters: number } {
  let head = text.length;
  let tail = 0;
  if (!whole) {
    head = tail = -1;
    for (let line = 0; line < LINES_SHOWN / 2 && head < text.length; line += 1) {
      const end = text.indexOf("\n", head + 1);
      head = end < 0 ? text.length : end;
    }
    tail = text.length - Number(text.endsWith("\n"));
    for (let line = 0; line < LINES_SHOWN / 2 && tail > 0; line += 1) tail = tail > 0 ? text.lastIndexOf("\n", tail - 1) : -1;
    tail += 1;
  }
  head = Math.min(head, MOST_CHARACTERS / 2);
  tail = Math.max(tail, text.length - MOST_CHARACTERS / 2);
  if (head >= tail - 1) return { head: text, tail: "", lines: 0, characters: 0 };
  let lines = 0;
  for (let at = text.indexOf("\n", head + 1); at >= 0 && at < tail; at = text.indexOf("\n", at + 1)) lines += 1;
  return { head: text.slice(0, head), tail: text.slice(tail), lines: whole ? 0 : lines, characters: Math.max(0, text.length - MOST_CHARACTERS) };
}

function Rich({ data }: { data: Record<string, unknown> }) {
  const text = (type: string) => (isText(data[type]) ? join(data[type]) : undefined);
  const plain = text("text/plain");
  const alternative = plain ?? "A picture that the code has shown";
  const figure = useMemo(() => findFigure(data), [data]);
  if (figure) return <Figure {...figure} plain={plain} of={data} />;
  if (viewOf({ data } as Output) !== undefined) return <Widget data={data} plain={plain} />;
  const html = text("text/html");
  if (html !== undefined) return <Html html={html} plain={plain} of={data} />;
  for (const [type, latex] of [["text/markdown", false], ["text/latex", true]] as const) {
    const prose = text(type);
    if (prose !== undefined) return prose.length > MOST_CHARACTERS ? <Terminal text={prose} /> : <Frame kind="prose" given={{ text: prose, latex }} of={data} />;
  }
  const svg = text("image/svg+xml");
  // As a picture: a browser runs no script of it and loads nothing that it names.
  if (svg !== undefined) return <img class="picture" alt={alternative} src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`} />;
  for (const type of PICTURES) {
    const found = text(type);
    if (found !== undefined) return <img class="picture" alt={alternative} src={`data:${type};base64,${found.replace(/\s/g, "")}`} />;
  }
  if (plain !== undefined) return <Terminal text={plain} />;
  if ("application/json" in data) return <Terminal text={JSON.stringify(data["application/json"], null, 2)} />;
  return <p class="hint">An output that this page cannot show: {Object.keys(data).join(", ") || "nothing"}.</p>;
}

function isText(value: unknown): value is Text {
  return typeof value === "string" || (Array.isArray(value) && value.every((each) => typeof each === "string"));
}

interface Found { kind: "plotly" | "vega"; figure: unknown }

/** A figure whose description is data: what draws it ships with the console, and no script of the output's runs. */
function findFigure(data: Record<string, unknown>): Found | null {
  for (const [type, value] of Object.entries(data)) {
    const kind = type === "application/vnd.plotly.v1+json" ? "plotly" : VEGA.test(type) ? "vega" : null;
    const figure = kind && isText(value) ? parse(join(value)) : value;
    if (kind && figure !== null && typeof figure === "object") return { kind, figure };
  }
  const html = data["text/html"];
  return isText(html) ? readAltair(join(html)) : null;
}

/** Altair's HTML hands its chart to a function, as data at the script's end. It is read as data, too. */
function readAltair(html: string): Found | null {
  if (!html.includes("vegaEmbed(") || html.length > MOST_FIGURE_CHARACTERS) return null;
  const from = html.lastIndexOf("})({");
  const to = html.lastIndexOf(");");
  const given = from < 0 || to < from ? null : parse(`[${html.slice(from + 3, to)}]`);
  return Array.isArray(given) && given[0] !== null && typeof given[0] === "object" ? { kind: "vega", figure: given[0] } : null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function Figure({ kind, figure, plain, of }: Found & { plain?: string; of: object }) {
  const large = useMemo(() => JSON.stringify(figure).length > MOST_FIGURE_CHARACTERS, [figure]);
  if (!large) return <Frame kind={kind} given={{ figure }} of={of} />;
  return <>{plain !== undefined && <Terminal text={plain} />}<p class="hint">This figure is too large for this page. It shows in JupyterLab, which <b>Attach</b> opens.</p></>;
}

/** Takes what somebody did to a widget to its kernel; null where none is there to hear of it, undefined until that is known. */
export const Mover = createContext<((move: Move) => void) | null | undefined>(null);

/** What a kernel has said of a widget is drawn; of one whose kernel said nothing that is kept, there is its text. */
function Widget({ data, plain }: { data: Record<string, unknown>; plain?: string }) {
  const view = viewOf({ data } as Output);
  const state = stateOf({ data } as Output);
  const move = useContext(Mover);
  const moves = move === undefined ? undefined : move !== null;
  const given = useMemo(() => ({ widget: { view: view!, state: state!, moves } }), [view, state, moves]);
  if (view !== undefined && state) {
    const take = (asked: unknown) => { const read = readMove(asked, state); if (read) move?.(read); };
    return <Frame kind="widgets" given={given} of={data} onMove={take} />;
  }
  return <>{plain !== undefined && <Terminal text={plain} />}<p class="hint">A widget, as text and as it was at first. It moves in JupyterLab, which <b>Attach</b> opens.</p></>;
}

/** What its scripts would show is not there; where there is nothing besides, what it says of itself as text is. */
function Html({ html, plain, of }: { html: string; plain?: string; of: object }) {
  const scripted = /<script\b/i.test(html);
  return (
    <>
      <Frame kind="output" given={{ html }} of={of} />
      {scripted && plain !== undefined && !plain.startsWith("<IPython.core.display") && <Terminal text={plain} />}
      {scripted && <p class="hint">This output has scripts, which do not run here. It is whole in JupyterLab, which <b>Attach</b> opens.</p>}
    </>
  );
}

/** What is as it was is not drawn again. */
function isSame(one: Given, other: Given): boolean {
  return one.html === other.html && one.text === other.text && one.latex === other.latex
    && one.widget?.view === other.widget?.view && one.widget?.state === other.widget?.state && one.widget?.moves === other.widget?.moves
    && (one.figure === other.figure || JSON.stringify(one.figure) === JSON.stringify(other.figure));
}

declare const FRAME_HASHES: Record<string, string>;
/** The address of a frame's document: another one whenever the document is another. */
export const addressOf = (kind: string) => `/console/${kind}.html?${FRAME_HASHES[kind]}`;

/** How high frames were: one that comes into sight again is so high at once. By what they show. */
const known = new WeakMap<object, number>();

/** A frame of an origin of its own, from which nothing gets out: it is given what it shows, and says how high that is. */
export function Frame({ kind, given, of, onMove }: { kind: "output" | "prose" | "plotly" | "vega" | "widgets"; given: Given; of?: object; onMove?: (asked: unknown) => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(of && known.get(of) || 60);
  const ready = useRef(false);
  const shown = useRef<Given | null>(null);
  // Before the browser paints, so that nothing the frame says is missed. Its origin is none: no name for the target.
  useLayoutEffect(() => {
    const show = () => {
      if (shown.current === null || !isSame(shown.current, given)) frame.current?.contentWindow?.postMessage(given, "*");
      shown.current = given;
    };
    const hear = (event: MessageEvent) => {
      if (event.source === null || event.source !== frame.current?.contentWindow) return;
      if (event.data?.move !== undefined) onMove?.(event.data.move);
      if (event.data?.ready === true) { ready.current = true; shown.current = null; show(); }
      const wanted = Number(event.data?.height);
      if (!(wanted >= 0)) return;
      const its = Math.min(Math.ceil(wanted), MOST_FRAME_HEIGHT);
      if (of) known.set(of, its);
      setHeight(its);
    };
    addEventListener("message", hear);
    if (ready.current) show();
    return () => removeEventListener("message", hear);
  }, [given, of, onMove]);
  return <iframe ref={frame} class={`frame ${kind}`} title={TITLES[kind]} sandbox="allow-scripts" src={addressOf(kind)} style={{ height: `${height}px` }} />;
}
