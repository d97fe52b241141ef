// What happened to a session besides its executions: notes of its record, which stand between its cells.

import { useEffect, useState } from "preact/hooks";
import { ask, type Execution, type Page } from "./api";
import { useNow, When } from "./time";

export interface Note { kind: string; at: string; generation: number; text: string }

const MOST_NOTES = 1000;

/** The latest notes, oldest first; asked for again whenever `changes` is another. What fails is asked for with the next. */
export function useNotes(id: string, changes: number): Note[] {
  const [notes, setNotes] = useState<Note[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    ask<Page<Note>>("GET", `/v1/sessions/${id}/notes?newest_first=true&limit=${MOST_NOTES}`, undefined, stop.signal)
      .then((page) => setNotes(page.items.reverse())).catch(() => undefined);
    return () => stop.abort();
  }, [id, changes]);
  return notes;
}

/**
 * The notes before each of these executions, and after the last as the last item: an execution stands where it began.
 * Without `whole` there are executions before the first, and so are its notes.
 */
export function placeNotes(notes: Note[], executions: Execution[], whole: boolean): Note[][] {
  const placed: Note[][] = [];
  let next = 0;
  for (const { started_at: started, ended_at: ended } of executions) {
    const from = next;
    const at = started ?? ended;
    while (next < notes.length && at !== null && notes[next]!.at <= at) next += 1;
    placed.push(placed.length || whole ? notes.slice(from, next) : []);
  }
  placed.push(executions.length || whole ? notes.slice(next) : []);
  return placed;
}

/** `died`: what the cell before says of the death of its kernel, which is not said twice. */
export function Notes({ notes, died }: { notes: Note[]; died?: string }) {
  return <>{notes.map((each) => <One key={`${each.at} ${each.kind}`} note={each} again={died !== undefined && each.kind === "generation" && each.text.includes(died)} />)}</>;
}

function One({ note, again }: { note: Note; again: boolean }) {
  const now = Math.max(useNow(5), Date.parse(note.at)); // a note is of what has happened, also between two looks at the clock
  return (
    <p class="note">
      {again ? <b>A new kernel, generation {note.generation}.</b> : <Marked text={note.text} />} <span class="hint"><When time={note.at} now={now} /></span>
    </p>
  );
}

const MARKED = /(\*\*(?:[^*]|\*(?!\*))+\*\*|`[^`]+`|\d{4}-\d\d-\d\dT[\d:.]+Z)/;

/** Bold text, code and times of a note; all else is text, since names in it are anybody's. */
function Marked({ text }: { text: string }) {
  return (
    <>{text.split(MARKED).map((part, at) => at % 2 === 0 ? part
      : part[0] === "`" ? <code key={at}>{part.slice(1, -1)}</code>
      : part[0] === "*" ? <b key={at}><Marked text={part.slice(2, -2)} /></b>
      : <time key={at} dateTime={part} title={part}>{new Date(part).toLocaleString()}</time>)}</>
  );
}

/** Whether the same notes are in both. */
export function sameNotes(one: Note[], other: Note[]): boolean {
  return one.length === other.length && one.every((each, at) => each.at === other[at]!.at && each.kind === other[at]!.kind);
}
