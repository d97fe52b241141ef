// The names that code has defined, also while it runs; the kernel is not asked to run anything for them.

import { useEffect, useState } from "preact/hooks";
import { later } from "./answers";
import { ask } from "./api";
import { size } from "./time";
import type { ValueProps } from "./value";

const Value = later<ValueProps>(async () => (await import("./value")).Value);

export interface Variable { name: string; type: string; shape?: number[]; length?: number; size_bytes?: number; preview?: string }
type Order = "latest" | "size" | "name";

const LIVE_SECONDS = 3;

/** Asked for again whenever another execution has ended, every few seconds while code runs, and by its button. */
export function Variables({ id, ended, busy, may }: { id: string; ended: number; busy: boolean; may: boolean }) {
  const [found, setFound] = useState<{ variables: Variable[]; omitted: number } | null>(null);
  const [problem, setProblem] = useState("");
  const [order, setOrder] = useState<Order>("latest");
  const [shown, setShown] = useState<Variable | null>(null);

  async function load(signal?: AbortSignal): Promise<void> {
    try {
      setFound(await ask("GET", `/v1/sessions/${id}/variables`, undefined, signal));
      setProblem("");
    } catch (error) {
      if ((error as Error).name !== "AbortError") setProblem((error as Error).message);
    }
  }
  useEffect(() => {
    const stop = new AbortController();
    void load(stop.signal);
    const timer = busy ? setInterval(() => { if (document.visibilityState === "visible") void load(stop.signal); }, LIVE_SECONDS * 1000) : undefined;
    return () => { stop.abort(); clearInterval(timer); };
  }, [id, ended, busy]);

  const rows = [...(found?.variables ?? [])];
  if (order === "size") rows.sort((a, b) => (b.size_bytes ?? 0) - (a.size_bytes ?? 0));
  if (order === "name") rows.sort((a, b) => a.name.localeCompare(b.name));
  if (shown) return <Value id={id} variable={rows.find(({ name }) => name === shown.name) ?? shown} ended={ended} busy={busy} onClose={() => setShown(null)} />;
  return (
    <section class="panel" aria-label="Variables">
      <div class="bar">
        <h2>Variables</h2>
        <select aria-label="Order" value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
          <option value="latest">Defined last first</option>
          <option value="size">Largest first</option>
          <option value="name">By name</option>
        </select>
        <button type="button" onClick={() => load()}>Look again</button>
      </div>
      {problem && <p role="alert" class="problem">{problem}</p>}
      {found && rows.length === 0 && <p class="empty">No names are defined. Run <code>x = 41</code>.</p>}
      {rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Names">
          <table class="list">
            <thead><tr><th scope="col">Name</th><th scope="col">Type</th><th scope="col" class="number">Size</th></tr></thead>
            <tbody>
              {rows.map((each) => (
                <tr key={each.name}>
                  <th scope="row">
                    {may ? <button type="button" class="quiet" title="Show all of it" onClick={() => setShown(each)}>{each.name}</button> : each.name}
                    {each.preview && <div class="preview">{each.preview}</div>}
                  </th>
                  <td>{each.type}{each.shape ? ` ${each.shape.join(" × ")}` : each.length === undefined ? "" : ` (${each.length.toLocaleString()})`}</td>
                  <td class="number">{each.size_bytes === undefined ? "" : size(each.size_bytes)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {found!.omitted > 0 && <p class="hint">And about {found!.omitted.toLocaleString()} more.</p>}
        </div>
      )}
    </section>
  );
}
