// What somebody does to a widget, from its frame to the kernel. What a frame asks for is looked at here: anything in it may
// have been made to ask, and nothing but new values of widgets that it shows, or a click on a button of them, goes on.

import { ask, type Failure, type ServerEvent, type Widgets } from "./api";
import type { Move } from "./frames/talk";
import { headersOf } from "./lease";

/** What a front end of Jupyter's own controls sets. */
const VALUES = ["value", "index"];
const MOST_CHARACTERS = 20_000;
const MOST_ITEMS = 1000;
/** Widgets whose moves wait; of each the last one counts. */
const MOST_WAITING = 20;
const PAUSE_MILLISECONDS = 50;

function isScalar(value: unknown): boolean {
  return value === null || ["string", "boolean"].includes(typeof value) || (typeof value === "number" && Number.isFinite(value));
}

/** A move as a frame asked for it that shows these widgets; null: it is none. */
export function readMove(asked: unknown, shown: Widgets["state"]): Move | null {
  const { model, state, event } = (asked ?? {}) as Record<string, unknown>;
  if (typeof model !== "string" || !Object.hasOwn(shown, model)) return null;
  const { state: known = {}, model_name: name } = shown[model]!;
  if (event !== undefined) return event === "click" && name === "ButtonModel" ? { model, event } : null;
  const values = Object.entries((state ?? {}) as object);
  const fits = ([key, value]: [string, unknown]) => VALUES.includes(key) && Object.hasOwn(known, key)
    && (isScalar(value) || (Array.isArray(value) && value.length <= MOST_ITEMS && value.every(isScalar)));
  if (values.length !== 1 || !values.every(fits) || JSON.stringify(values).length > MOST_CHARACTERS) return null;
  return { model, state: Object.fromEntries(values) };
}

/** Sends moves one after another. `heard` is given what the kernel told of each; nothing, where it did not take it. */
export class Moves {
  private waiting = new Map<string, { execution: string; move: Move }>();
  private sending = false;
  constructor(private session: string, private heard: (execution: string, events: ServerEvent[] | null) => void, private say: (problem: string) => void) {}

  add(execution: string, move: Move): void {
    const key = `${move.model} ${move.event ?? ""}`;
    if (!this.waiting.has(key) && this.waiting.size >= MOST_WAITING) return;
    this.waiting.set(key, { execution, move });
    if (!this.sending) void this.send();
  }

  private async send(): Promise<void> {
    this.sending = true;
    for (const [key, { execution, move: { model, ...change } }] of this.waiting) {
      this.waiting.delete(key);
      try {
        const path = `/v1/sessions/${this.session}/executions/${execution}/widgets`;
        const { events } = await ask<{ events: ServerEvent[] }>("POST", path, { model_id: model, ...change }, undefined, headersOf(this.session));
        this.say("");
        this.heard(execution, events);
      } catch (error) {
        this.say((error as Failure).message);
        this.heard(execution, null);
      }
      await new Promise((done) => setTimeout(done, PAUSE_MILLISECONDS));
    }
    this.sending = false;
  }
}
