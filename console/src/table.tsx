// Rows of a frame, a series or an array that code holds, a page at a time; the kernel makes text of them, between cells.

import { useState } from "preact/hooks";
import { Problem, useAnswer } from "./answers";
import { ask } from "./api";
import { Paging } from "./paging";

const ROWS = 100;

interface Rows { columns: { name: string; type: string }[]; rows: string[][]; first: number; total: number; wide: number }

export interface TableProps { id: string; name: string; ended: number; busy: boolean; onClose: () => void }

export function Table({ id, name, ended, busy, onClose }: TableProps) {
  // Where each page begins: one may have fewer rows than were asked for.
  const [starts, setStarts] = useState([0]);
  const first = starts.at(-1)!;
  // Code that runs keeps the kernel from answering: what was seen stays until it has ended.
  const { found, problem, again } = useAnswer((signal) =>
    ask<Rows>("POST", `/v1/sessions/${id}/rows`, { name, first, count: ROWS, timeout_seconds: 30 }, signal), [id, name, first], 0, ended);
  const step = (way: number) => {
    if (way < 0) setStarts(starts.slice(0, -1));
    else if (found) setStarts([...starts, first + found.rows.length]);
  };
  return (
    <section class="panel broad" aria-label={`Rows of ${name}`}>
      <div class="bar">
        <button type="button" class="quiet" onClick={onClose} aria-label="All variables">←</button>
        <h2>{name}</h2>
        {found && <span class="hint">{found.total.toLocaleString()} × {found.wide.toLocaleString()}</span>}
      </div>
      {problem && (busy ? <p class="hint" role="status">Code runs; the kernel shows rows between cells.</p> : <Problem text={problem} again={again} />)}
      {found && (
        <div class="preview-body" tabIndex={0} role="group" aria-label="Rows">
          <Paging from={first} shown={found.rows.length} of={found.total} onPage={step}>
            {found.wide > found.columns.length && `, the first ${found.columns.length} columns`}
          </Paging>
          <table class="list">
            <thead>
              <tr>
                <th scope="col"><span class="hidden">Label</span></th>
                {found.columns.map((each, at) => <th scope="col" key={at} class={isNumeric(each.type) ? "number" : ""}>{each.name}<br /><span class="kind">{each.type}</span></th>)}
              </tr>
            </thead>
            <tbody>
              {found.rows.map(([label, ...cells], row) => (
                <tr key={first + row}>
                  <th scope="row">{label}</th>
                  {cells.map((cell, at) => <td key={at} class={isNumeric(found.columns[at]!.type) ? "number" : ""}>{cell}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function isNumeric(type: string): boolean {
  return /^(u?int|float|complex|Int|UInt|Float)\d*/.test(type);
}
