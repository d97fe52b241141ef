// Figures of the whole service as small curves: what Prometheus would be told, asked for every few seconds while one looks.

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./answers";
import { readText } from "./api";
import { Curve, type Point } from "./curves";
import { duration, size } from "./time";

const EVERY_SECONDS = 5;
/** An hour of them. */
const MOST_SAMPLES = 720;

type Sample = Map<string, number>;
interface Shown { name: string; of: (now: Sample, before: Sample | null, seconds: number) => number | null; say: (value: number) => string }

const tell = (value: number) => (Math.round(value * 10) / 10).toLocaleString();
/** How much a counter has grown in a second; null where it is not known yet, or the service was started again. */
const rate = (name: string) => (now: Sample, before: Sample | null, seconds: number) =>
  before === null || seconds <= 0 || sum(now, name) < sum(before, name) ? null : (sum(now, name) - sum(before, name)) / seconds;
const gauge = (name: string) => (now: Sample) => sum(now, name);
const mean = (name: string) => (now: Sample, before: Sample | null) => {
  const events = before === null ? 0 : sum(now, `${name}_count`) - sum(before, `${name}_count`);
  return before === null ? null : events <= 0 ? 0 : (sum(now, `${name}_sum`) - sum(before, `${name}_sum`)) / events;
};

const SHOWN: Shown[] = [
  { name: "Live sessions", of: gauge('sandcell_sessions{state="ready"}'), say: tell },
  { name: "Executions that run", of: gauge("sandcell_executions_running"), say: tell },
  { name: "Executions that wait", of: gauge("sandcell_executions_waiting"), say: tell },
  { name: "Executions a minute", of: (...all) => { const found = rate("sandcell_executions_total")(...all); return found === null ? null : found * 60; }, say: tell },
  { name: "Memory of sandboxes", of: gauge("sandcell_sandboxes_memory_bytes"), say: size },
  { name: "Processors in use by sandboxes", of: rate("sandcell_live_sessions_cpu_seconds"), say: (value) => value.toFixed(2) },
  { name: "Wait in the queue, on average", of: mean("sandcell_execution_queue_seconds"), say: (value) => duration(value * 1000) },
  { name: "A query of the database, on average", of: mean("sandcell_database_seconds"), say: (value) => duration(value * 1000) },
  { name: "Workspaces in the spool", of: gauge("sandcell_spool_workspaces"), say: tell },
  { name: "Bytes that wait for the store", of: gauge("sandcell_flush_pending_bytes"), say: size },
  { name: "Written to the store a second", of: rate("sandcell_store_written_bytes_total"), say: size },
  { name: "Memory of the service", of: gauge("process_resident_memory_bytes"), say: size },
  { name: "Audit records that wait", of: gauge("sandcell_audit_waiting_records"), say: tell },
];

/** All of a name, whatever their labels; or one of them, by its name with labels. */
function sum(sample: Sample, name: string): number {
  let found = 0;
  for (const [own, value] of sample) if (own === name || own.startsWith(`${name}{`)) found += value;
  return found;
}

function parseMetrics(text: string): Sample {
  const found: Sample = new Map();
  for (const line of text.split("\n")) {
    const at = line.lastIndexOf(" ");
    if (line.startsWith("#") || at < 0 || line.includes("_bucket{")) continue;
    const value = Number(line.slice(at + 1));
    if (Number.isFinite(value)) found.set(line.slice(0, at), value);
  }
  return found;
}

export function Metrics() {
  const curves = useRef<Point[][]>(SHOWN.map(() => []));
  const [drawn, setDrawn] = useState(0);
  const [problem, setProblem] = useState("");
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let before: { at: number; sample: Sample } | null = null;
    const look = async () => {
      if (document.visibilityState !== "visible") return;
      try {
        const sample = parseMetrics(await readText("/metrics", stop.signal));
        const at = Date.now();
        SHOWN.forEach((each, place) => {
          const value = each.of(sample, before?.sample ?? null, before ? (at - before.at) / 1000 : 0);
          const curve = curves.current[place]!;
          if (value !== null) curve.push([at, value]);
          if (curve.length > MOST_SAMPLES) curve.shift();
        });
        before = { at, sample };
        setDrawn(at);
        setProblem("");
      } catch (error) {
        if (!stop.signal.aborted) setProblem((error as Error).message);
      }
    };
    void look();
    const timer = setInterval(look, EVERY_SECONDS * 1000);
    return () => { stop.abort(); clearInterval(timer); };
  }, [round]);
  const from = Math.min(...curves.current.map((each) => each[0]?.[0] ?? drawn));
  return (
    <div class="scroll parts" tabIndex={0} role="group" aria-label="Curves">
      <Problem text={problem} again={() => setRound(round + 1)} />
      <p class="hint">Since this page was opened, every {EVERY_SECONDS} seconds. Longer, and with alarms: <code>GET /metrics</code> for Prometheus.</p>
      <div class="curves">
        {SHOWN.map((each, place) => <Curve key={each.name} name={each.name} points={curves.current[place]!} from={from} to={drawn} say={each.say} />)}
      </div>
    </div>
  );
}
