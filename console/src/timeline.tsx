// When things happened: a strip of time with each execution, kernels that began and died, the last flush and the end.

import { useEffect, useRef } from "preact/hooks";
import type { Execution, Session } from "./api";
import { Curve, type Point } from "./curves";
import { nameCell } from "./code";
import { duration, size, useNow } from "./time";

const HEIGHT = 56;
const LANE = { top: 16, height: 20 };
/** Commands run beside code, shells for hours: they are the lower part of the lane. */
const COMMAND_HEIGHT = 7;
const COLOURS: Record<string, string> = {
  ok: "--good", running: "--accent", queued: "--faint", error: "--bad", timeout: "--bad", died: "--bad", interrupted: "--warn", rejected: "--faint",
};

interface Bar { id: string; name: string; from: number; to: number; status: string; command: boolean }
interface Mark { at: number; text: string; colour: string }

function barsOf(executions: Execution[], now: number): Bar[] {
  return executions.filter((each) => each.started_at).map((each) => ({
    id: each.id, name: nameCell(each, "Cell"), command: each.kind === "command", status: each.status, from: Date.parse(each.started_at!), to: each.ended_at ? Date.parse(each.ended_at) : now,
  }));
}

function marksOf(session: Session, executions: Execution[]): Mark[] {
  const marks: Mark[] = [{ at: Date.parse(session.created_at), text: "started", colour: "--faint" }];
  executions.forEach((each, at) => {
    const before = executions[at - 1];
    const died = each.status === "died" && each.kind === "code";
    if (died && each.ended_at) marks.push({ at: Date.parse(each.ended_at), text: "kernel died", colour: "--bad" });
    if (before && each.generation > before.generation && before.status !== "died" && each.started_at) {
      marks.push({ at: Date.parse(each.started_at), text: "new kernel", colour: "--warn" });
    }
  });
  if (session.sync.last_flush_at) marks.push({ at: Date.parse(session.sync.last_flush_at), text: "files stored", colour: "--accent" });
  if (session.ended) marks.push({ at: Date.parse(session.ended.at), text: "ended", colour: "--faint" });
  return marks;
}

/** How much a session used at a moment, as the service said. */
export interface Used { at: number; memory: number; cpuSeconds: number }

/** Memory: what was seen meanwhile, and of each cell its peak. */
function memoryOf(executions: Execution[], used: readonly Used[]): Point[] {
  const peaks = executions.flatMap(({ ended_at: ended, provenance, death }): Point[] => {
    const peak = provenance?.memory_peak_bytes ?? death?.memory_peak_bytes;
    return ended && peak ? [[Date.parse(ended), peak]] : [];
  });
  return [...peaks, ...used.map((each): Point => [each.at, each.memory])].sort(([one], [other]) => one - other);
}

/** Processors in use: between two looks of this page, and of each cell while it ran, from nothing to nothing. */
function processorsOf(executions: Execution[], used: readonly Used[]): Point[] {
  const points: Point[] = [];
  for (const { started_at: started, ended_at: ended, provenance } of executions) {
    if (!started || !ended || provenance?.cpu_seconds === undefined) continue;
    const [from, to] = [Date.parse(started), Date.parse(ended)];
    const share = provenance.cpu_seconds / Math.max((to - from) / 1000, 0.01);
    points.push([from, 0], [from, share], [to, share], [to, 0]);
  }
  const last = points.at(-1)?.[0] ?? 0;
  used.forEach((each, at) => {
    const before = used[at - 1];
    if (before && before.at > last && each.at > before.at) points.push([each.at, Math.max(0, (each.cpuSeconds - before.cpuSeconds) / ((each.at - before.at) / 1000))]);
  });
  return points;
}

interface TimelineProps { session: Session; executions: Execution[]; used: readonly Used[]; onChoose: (id: string) => void }

export function Timeline({ session, executions, used, onChoose }: TimelineProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const ended = session.ended ? Date.parse(session.ended.at) : null;
  const now = useNow(ended ? 3600 : 2);
  const from = Date.parse(session.created_at);
  const to = Math.max(ended ?? now, from + 1000);
  // Commands last: code does not hide them.
  const bars = barsOf(executions, now).sort((one, other) => Number(one.command) - Number(other.command));
  const marks = marksOf(session, executions);

  const draw = () => {
    const own = canvas.current;
    const context = own?.getContext("2d");
    if (!own || !context) return;
    const width = own.clientWidth;
    own.width = width * devicePixelRatio;
    own.height = HEIGHT * devicePixelRatio;
    context.scale(devicePixelRatio, devicePixelRatio);
    const style = getComputedStyle(own);
    const place = (time: number) => ((time - from) / (to - from)) * (width - 2);
    const colours = new Map<string, string>();
    const paint = (name: string) => {
      if (!colours.has(name)) colours.set(name, resolve(own, style.getPropertyValue(name)));
      context.fillStyle = colours.get(name)!;
    };
    paint("--raised");
    context.fillRect(0, LANE.top, width, LANE.height);
    for (const bar of bars) {
      paint(COLOURS[bar.status] ?? "--faint");
      const [top, height] = bar.command ? [LANE.top + LANE.height - COMMAND_HEIGHT, COMMAND_HEIGHT] : [LANE.top, LANE.height];
      context.fillRect(place(bar.from), top, Math.max(2, place(bar.to) - place(bar.from)), height);
    }
    context.font = "11px system-ui, sans-serif";
    let free = [-Infinity, -Infinity];
    for (const mark of [...marks].sort((one, other) => one.at - other.at)) {
      paint(mark.colour);
      const x = Math.min(place(mark.at), width - 2);
      context.fillRect(x, LANE.top - 4, 2, LANE.height + 8);
      const wide = context.measureText(mark.text).width;
      const left = Math.min(Math.max(0, x - wide / 2), width - wide);
      const row = left > free[0]! ? 0 : left > free[1]! ? 1 : -1;
      if (row < 0) continue; // there is no room to say it; the line is there
      paint("--text");
      context.fillText(mark.text, left, row === 0 ? 10 : HEIGHT - 6);
      free = row === 0 ? [left + wide + 6, free[1]!] : [free[0]!, left + wide + 6];
    }
  };
  useEffect(() => {
    draw();
    const sizes = new ResizeObserver(draw);
    sizes.observe(canvas.current!);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => { sizes.disconnect(); scheme.removeEventListener("change", draw); };
  });

  const find = (event: MouseEvent): Bar | null => {
    const box = canvas.current!.getBoundingClientRect();
    const time = from + ((event.clientX - box.left) / box.width) * (to - from);
    const distance = (bar: Bar) => Math.max(bar.from - time, time - bar.to, 0);
    const length = (bar: Bar) => bar.to - bar.from;
    // Of those that are there the shortest: a shell that is open is there all the time.
    const nearer = (bar: Bar, best: Bar) => distance(bar) < distance(best) || (distance(bar) === distance(best) && length(bar) < length(best));
    return bars.reduce<Bar | null>((best, bar) => (best === null || nearer(bar, best) ? bar : best), null);
  };
  const choose = (event: MouseEvent) => {
    const nearest = find(event);
    if (nearest) onChoose(nearest.id);
  };
  const name = (event: MouseEvent) => {
    const nearest = find(event);
    canvas.current!.title = nearest ? `${nearest.name}, ${nearest.status}, ${duration(nearest.to - nearest.from)}` : "";
  };
  const died = executions.filter((each) => each.status === "died" && each.kind === "code").length;
  return (
    <div class="timeline">
      <canvas ref={canvas} role="img" style={{ height: `${HEIGHT}px` }} onClick={choose} onMouseMove={name}
        aria-label={`Timeline: ${bars.length} executions, ${died} deaths of the kernel; ${marks.map((each) => `${each.text} ${new Date(each.at).toLocaleTimeString()}`).join(", ")}`} />
      <div class="curves">
        <Curve name="Memory" points={memoryOf(executions, used)} from={from} to={to} most={session.usage.memory_limit_bytes / 8} say={size} />
        <Curve name="Processors" points={processorsOf(executions, used)} from={from} to={to} say={(value) => value.toFixed(2)} />
      </div>
    </div>
  );
}

/** A colour as a canvas takes it: of `light-dark()` the one that is in force. */
function resolve(element: HTMLElement, value: string): string {
  const probe = element.ownerDocument.createElement("span");
  probe.style.color = value;
  element.parentElement!.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
