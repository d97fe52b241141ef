// One of the variables as a whole: rows of a table, an array as a picture, anything as its text. The kernel makes them.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAnswer } from "./answers";
import { ask } from "./api";
import { Table, Waiting, type BodyProps } from "./table";
import type { Variable } from "./variables";

/** How wide or high a small picture is made. */
const WIDE = 512;

export interface ValueProps { id: string; variable: Variable; ended: number; busy: boolean; onClose: () => void }
type Way = "rows" | "picture" | "text";
const WAYS: Record<Way, string> = { rows: "Rows", picture: "Picture", text: "Text" };

/** How a variable can be shown, first how it is at first. */
function waysOf({ type, shape }: Variable): Way[] {
  const [height = 0, width = 0, channels = 0] = shape ?? [];
  // Of frames of Polars the shape is known only to who asks them.
  const table = shape ? shape.length === 1 || shape.length === 2 : type === "DataFrame" || type === "Series";
  const ways: Way[] = table ? ["rows"] : [];
  const flat = shape?.length === 2 || (shape?.length === 3 && (channels === 3 || channels === 4));
  if (type === "ndarray" && flat && height > 1 && width > 1) ways.push("picture");
  return [...ways, "text"];
}

export function Value({ id, variable, ended, busy, onClose }: ValueProps) {
  const { name, type, shape } = variable;
  const ways = waysOf(variable);
  const [chosen, setWay] = useState(ways[0]!);
  const way = ways.includes(chosen) ? chosen : ways[0]!; // the name may have got another value
  const Body = { rows: Table, picture: Picture, text: Text }[way];
  return (
    <section class="panel broad" aria-label={`Value of ${name}`}>
      <div class="bar">
        <button type="button" class="quiet" onClick={onClose} aria-label="All variables">←</button>
        <h2>{name}</h2>
        <span class="hint">{type}{shape && ` ${shape.map((each) => each.toLocaleString()).join(" × ")}`}</span>
        <span class="grow" />
        {ways.length > 1 && (
          <div class="choice" role="group" aria-label="Show as">
            {ways.map((each) => <button key={each} type="button" aria-pressed={each === way} onClick={() => setWay(each)}>{WAYS[each]}</button>)}
          </div>
        )}
      </div>
      <Body id={id} name={name} ended={ended} busy={busy} />
    </section>
  );
}

function Text({ id, name, ended, busy }: BodyProps) {
  const { found, problem, again } = useAnswer((signal) =>
    ask<{ text: string; cut: boolean }>("POST", `/v1/sessions/${id}/rows`, { name, show: "text", timeout_seconds: 30 }, signal), [id, name], 0, ended);
  return (
    <>
      <Waiting problem={problem} busy={busy} again={again} />
      {found && (
        <div class="preview-body" tabIndex={0} role="group" aria-label="Text">
          {found.cut && <p class="hint">Only a part shows, of {found.text.length.toLocaleString()} characters.</p>}
          <pre>{found.text}</pre>
        </div>
      )}
    </>
  );
}

interface Pixels { height: number; width: number; channels: number; data: string; minimum: string; maximum: string; down: number; across: number }

function Picture({ id, name, ended, busy }: BodyProps) {
  const { found, problem, again } = useAnswer(async (signal) =>
    (await ask<{ picture: Pixels }>("POST", `/v1/sessions/${id}/rows`, { name, show: "picture", timeout_seconds: 30 }, signal)).picture, [id, name], 0, ended);
  return (
    <>
      <Waiting problem={problem} busy={busy} again={again} />
      {found && (
        <div class="preview-body" tabIndex={0} role="group" aria-label="Picture">
          <p class="hint" role="status">
            {found.minimum ? `${found.channels === 2 ? "Black is" : "From"} ${found.minimum}, ${found.channels === 2 ? "white" : "to"} ${found.maximum}` : "No number is finite"}
            {(found.down > 1 || found.across > 1) && `; one of ${found.down} rows and of ${found.across} columns`}
          </p>
          <Drawn name={name} picture={found} />
        </div>
      )}
    </>
  );
}

function Drawn({ name, picture }: { name: string; picture: Pixels }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { height, width, channels, data } = picture;
  useLayoutEffect(() => {
    const given = atob(data);
    const drawn = new ImageData(width, height);
    for (let pixel = 0; pixel < width * height; pixel += 1) {
      for (let part = 0; part < 4; part += 1) {
        const from = channels === 4 ? part : part === 3 ? 1 : 0;
        drawn.data[pixel * 4 + part] = given.charCodeAt(pixel * channels + from);
      }
    }
    canvas.current!.getContext("2d")!.putImageData(drawn, 0, 0);
    canvas.current!.style.width = `${width * Math.max(1, Math.floor(WIDE / Math.max(width, height)))}px`;
  }, [picture]);
  return <canvas ref={canvas} class="pixels" width={width} height={height} role="img" aria-label={`${name} as a picture`} />;
}
