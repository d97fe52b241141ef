// Jupyter's own widgets as their kernel last described them, from their state alone: what a cell shows of its progress moves,
// and controls show how they stand. Those of other packages are scripts of their authors, which do not run here.

import { clean, listen } from "./talk";

interface Model { model_name?: unknown; model_module?: unknown; state?: Record<string, unknown>; buffers?: { path?: unknown; data?: unknown }[] }
type State = Record<string, unknown>;

const OURS = ["@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"];
const REFERENCE = "IPY_MODEL_";
/** Widgets may hold themselves. */
const MOST_LEVELS = 30;
const MOST_DRAWN = 3000;
const LAYOUT = /^(width|height|(min|max)_(width|height)|margin|padding|border(_(top|right|bottom|left))?|display|visibility|overflow|order|flex|flex_flow|(justify|align)_(content|items|self)|grid_[a-z_]+|object_(fit|position))$/;

let models: Record<string, Model> = {};
let drawn = 0;
let controls = 0;
/** Which of its pages somebody has opened here; by the widget. */
const opened = new Map<string, number>();

function make<K extends keyof HTMLElementTagNameMap>(tag: K, classes = "", ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  made.append(...children);
  return made;
}

const text = (value: unknown) => (value === null || value === undefined ? "" : String(value));
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const number = (value: unknown, otherwise: number) => (typeof value === "number" && Number.isFinite(value) ? value : otherwise);
const named = (value: unknown) => (typeof value === "string" && value.startsWith(REFERENCE) ? value.slice(REFERENCE.length) : "");
const own = (id: string): Model | undefined => (Object.hasOwn(models, id) ? models[id] : undefined);
const stateOf = (value: unknown): State => own(named(value))?.state ?? {};

function html(value: unknown): HTMLElement {
  return make("div", "", ...clean(text(value)));
}

/** A number as Python's format would write it, as far as sliders ask for that. */
function format(value: unknown, how: unknown): string {
  const digits = /^\.(\d)f$/.exec(text(how))?.[1];
  return typeof value === "number" && digits ? value.toFixed(Number(digits)) : text(value);
}

function control<T extends HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement | HTMLButtonElement>(made: T, about: Partial<T> = {}): T {
  controls += 1;
  return Object.assign(made, about, { disabled: true });
}

const input = (type: string, value: unknown) => control(make("input"), { type, value: text(value) });

function progress(state: State): HTMLElement {
  const least = number(state["min"], 0);
  const most = number(state["max"], 100);
  const value = Math.min(Math.max(number(state["value"], least), least), most);
  const share = most > least ? (100 * (value - least)) / (most - least) : 0;
  const part = make("div");
  const colour = stateOf(state["style"])["bar_color"];
  if (typeof colour === "string") part.style.backgroundColor = colour;
  part.style[state["orientation"] === "vertical" ? "height" : "width"] = `${share}%`;
  const bar = make("div", `bar ${/^[a-z]+$/.test(text(state["bar_style"])) ? text(state["bar_style"]) : ""}`, part);
  bar.role = "progressbar";
  bar.ariaLabel = text(state["description"]) || "Progress";
  [bar.ariaValueMin, bar.ariaValueMax, bar.ariaValueNow] = [least, most, value].map(String) as [string, string, string];
  return bar;
}

function slider(state: State): Node[] {
  const labels = list(state["_options_labels"]);
  const chosen = labels.length ? state["index"] : state["value"];
  const values = Array.isArray(chosen) ? chosen : [chosen];
  const range = (value: unknown) => {
    const made = control(make("input"), { type: "range" });
    const log = typeof state["base"] === "number" && typeof value === "number";
    made.min = text(labels.length ? 0 : state["min"]);
    made.max = text(labels.length ? labels.length - 1 : state["max"]);
    made.step = labels.length ? "1" : "any";
    made.value = text(log ? Math.log(value) / Math.log(state["base"] as number) : value);
    made.ariaLabel = text(state["description"]) || "Slider";
    return made;
  };
  const shown = values.map((each) => (labels.length ? text(labels[Number(each)]) : format(each, state["readout_format"])));
  return [...values.map(range), ...(state["readout"] === false ? [] : [make("span", "readout", shown.join(" – "))])];
}

function choice(state: State, many: boolean, rows: number): HTMLElement {
  const made = control(make("select"), { multiple: many, size: rows });
  const chosen = many ? list(state["index"]) : [state["index"]];
  list(state["_options_labels"]).slice(0, MOST_DRAWN).forEach((each, at) => made.append(Object.assign(make("option", "", text(each)), { selected: chosen.includes(at) })));
  made.ariaLabel = text(state["description"]) || "Choice";
  return made;
}

function choices(state: State, type: string): HTMLElement {
  return make("div", type === "radio" ? "box column" : "box", ...list(state["_options_labels"]).slice(0, 200).map((each, at) => {
    if (type === "button") return control(make("button", "", text(each)), { ariaPressed: String(state["index"] === at) });
    return make("label", "", control(make("input"), { type, checked: state["index"] === at }), ` ${text(each)}`);
  }));
}

/** What came as bytes. */
function media(id: string, tag: "img" | "video" | "audio", kind: string): HTMLElement {
  const { state = {}, buffers = [] } = own(id)!;
  const data = text(buffers.find((each) => list(each?.path)[0] === "value")?.data);
  const made = make(tag);
  if (made instanceof HTMLImageElement) made.alt = "A picture"; else made.controls = true;
  made.src = `data:${kind}/${text(state["format"]).replace(/[^a-z0-9+.-]/gi, "") || "png"};base64,${data}`;
  for (const each of ["width", "height"] as const) if (state[each] && made.style) made.style[each] = `${parseFloat(text(state[each]))}px`;
  return made;
}

/** Outputs that a widget has gathered, in short. */
function outputs(state: State): Node[] {
  return list(state["outputs"]).slice(0, 100).map((each) => {
    const { text: streamed, data = {}, evalue } = (each ?? {}) as { text?: unknown; data?: Record<string, unknown>; evalue?: unknown };
    const join = (value: unknown) => (Array.isArray(value) ? value.join("") : text(value));
    if (data["image/png"] !== undefined) return Object.assign(make("img"), { alt: "A picture", src: `data:image/png;base64,${join(data["image/png"])}` });
    if (data["text/html"] !== undefined) return html(join(data["text/html"]));
    return make("pre", "", join(streamed ?? data["text/plain"] ?? evalue).slice(0, 100_000));
  });
}

function pages(id: string, state: State, level: number): HTMLElement {
  const titles = list(state["titles"]).length ? list(state["titles"]) : Object.values((state["_titles"] ?? {}) as object);
  const at = opened.get(id) ?? number(state["selected_index"], -1);
  return make("div", "box column", ...list(state["children"]).map((child, place) => {
    const page = make("details", "", make("summary", "", text(titles[place]) || `${place + 1}`), draw(named(child), level + 1));
    page.open = place === at;
    page.addEventListener("toggle", () => { if (page.open) opened.set(id, place); });
    return page;
  }));
}

const children = (state: State, level: number) => list(state["children"]).map((each) => draw(named(each), level + 1));

/** What is beside the description of a widget; null where nothing here knows it. */
function inner(name: string, id: string, state: State, level: number): Node[] | null {
  const value = state["value"];
  switch (name) {
    case "IntProgress": case "FloatProgress": return [progress(state)];
    case "Label": return [make("span", "", text(value))];
    case "HTML": case "HTMLMath": return [html(value)];
    case "IntSlider": case "FloatSlider": case "FloatLogSlider": case "IntRangeSlider": case "FloatRangeSlider":
    case "SelectionSlider": case "SelectionRangeSlider": return slider(state);
    case "IntText": case "BoundedIntText": case "FloatText": case "BoundedFloatText": return [input("number", value)];
    case "Text": case "Combobox": return [input("text", value)];
    case "Password": return [input("password", "")];
    case "Textarea": return [control(make("textarea"), { value: text(value), rows: number(state["rows"], 2) || 2 })];
    case "Checkbox": return [make("label", "", control(make("input"), { type: "checkbox", checked: value === true }), ` ${text(state["description"])}`)];
    case "Valid": return [make("span", "", value === true ? "✓" : `✗ ${text(state["readout"])}`)];
    case "Button": case "ToggleButton": case "FileUpload": {
      const made = control(make("button", "", text(state["description"]) || text(state["tooltip"]) || "Button"));
      const colour = stateOf(state["style"])["button_color"];
      if (typeof colour === "string") made.style.backgroundColor = colour;
      if (name === "ToggleButton") made.ariaPressed = String(value === true);
      return [made];
    }
    case "Dropdown": return [choice(state, false, 1)];
    case "Select": return [choice(state, false, number(state["rows"], 5) || 5)];
    case "SelectMultiple": return [choice(state, true, number(state["rows"], 5) || 5)];
    case "RadioButtons": return [choices(state, "radio")];
    case "ToggleButtons": return [choices(state, "button")];
    case "ColorPicker": return [control(make("input"), { type: "color", value: text(value) }), text(value)].map((each) => (typeof each === "string" ? make("span", "readout", each) : each));
    case "DatePicker": case "Time": case "Datetime": case "NaiveDatetime": return [input("text", writeDate(value))];
    case "TagsInput": case "ColorsInput": case "IntsInput": case "FloatsInput": return [input("text", list(value).map(text).join(", "))];
    case "Play": return [make("span", "readout", text(value))];
    case "Image": return [media(id, "img", "image")];
    case "Video": return [media(id, "video", "video")];
    case "Audio": return [media(id, "audio", "audio")];
    case "Output": return outputs(state);
    case "Box": case "HBox": case "VBox": case "GridBox": case "Stack": return children(state, level);
    case "Accordion": case "Tab": return [pages(id, state, level)];
    default: return null;
  }
}

function writeDate(value: unknown): string {
  if (value === null || typeof value !== "object") return text(value);
  const { year, month, date, hours, minutes, seconds } = value as Record<string, number | undefined>;
  const two = (each: number | undefined) => String(each ?? 0).padStart(2, "0");
  return [year === undefined ? "" : `${year}-${two(month! + 1)}-${two(date)}`, hours === undefined ? "" : `${two(hours)}:${two(minutes)}:${two(seconds)}`].filter(Boolean).join(" ");
}

const BOXES: Record<string, string> = { Box: "box", HBox: "box", VBox: "box column", GridBox: "grid", Stack: "box column", Accordion: "", Tab: "", HTML: "widget html", HTMLMath: "widget html", Output: "widget html", Image: "", Video: "", Audio: "" };
const UNNAMED = ["Checkbox", "Button", "ToggleButton", "FileUpload"];

function draw(id: string, level: number): HTMLElement {
  drawn += 1;
  const { model_name: name, model_module: module, state } = own(id) ?? {};
  if (!state || level > MOST_LEVELS || drawn > MOST_DRAWN) return make("span");
  const short = text(name).replace(/Model$/, "");
  const parts = OURS.includes(text(module)) ? inner(short, id, state, level) : null;
  if (!parts) {
    const what = OURS.includes(text(module)) ? text(name) : `the package ${text(module)}`;
    return make("p", "hint", `A widget of ${what}, which shows in JupyterLab, not here.`);
  }
  const description = UNNAMED.includes(short) ? "" : text(state["description"]);
  const label = make("label", "", ...(state["description_allow_html"] === true ? clean(description) : [description]));
  const width = stateOf(state["style"])["description_width"];
  if (typeof width === "string" && width) label.style.width = width === "initial" ? "auto" : width;
  const classes = BOXES[short] ?? `widget wide${state["orientation"] === "vertical" ? " upright" : ""}`;
  const made = make("div", classes, ...(description && classes.startsWith("widget") ? [label] : []), ...parts);
  for (const [property, value] of Object.entries(stateOf(state["layout"]))) {
    if (LAYOUT.test(property) && typeof value === "string") made.style.setProperty(property.replaceAll("_", "-"), value);
  }
  return made;
}

listen(({ widget }) => {
  if (!widget) return;
  models = (widget.state ?? {}) as Record<string, Model>;
  drawn = controls = 0;
  const root = draw(widget.view, 0);
  const hint = "Its controls show how they stand. They move in JupyterLab, which Attach opens.";
  document.body.replaceChildren(...(own(widget.view) ? [root] : []), ...(controls ? [make("p", "hint", hint)] : []));
});
