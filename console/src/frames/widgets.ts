// Jupyter's own widgets as their kernel last described them, from their state alone: what a cell shows of its progress moves.
// What somebody does to a control is told to the page, where the kernel is there to hear of it. Widgets of other packages are
// scripts of their authors, which do not run here.

import { clean, listen, type Given, type Move } from "./talk";

interface Model { model_name?: unknown; model_module?: unknown; state?: Record<string, unknown>; buffers?: { path?: unknown; data?: unknown }[] }
type State = Record<string, unknown>;

const OURS = ["@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"];
const REFERENCE = "IPY_MODEL_";
/** Widgets may hold themselves. */
const MOST_LEVELS = 30;
const MOST_DRAWN = 3000;
/** HTML that shows in many places is read for each of them, and all frames of the page wait meanwhile. After so much there is no more. */
const MOST_HTML_CHARACTERS = 1_000_000;
const LAYOUT = /^(width|height|(min|max)_(width|height)|margin|padding|border(_(top|right|bottom|left))?|display|visibility|overflow|order|flex|flex_flow|(justify|align)_(content|items|self)|grid_[a-z_]+|object_(fit|position))$/;

let models: Record<string, Model> = {};
let drawn = 0;
/** And how many characters of HTML are in it by now. */
let characters = 0;
let controls = 0;
/** Whether the kernel hears of what is moved. */
let moves = false;
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
  if (characters > MOST_HTML_CHARACTERS) return make("div", "", "There is more HTML here than shows.");
  const given = text(value);
  characters += given.length;
  return make("div", "", ...clean(given));
}

/** A number as Python's format would write it, as far as sliders ask for that. */
function format(value: unknown, how: unknown): string {
  const digits = /^\.(\d)f$/.exec(text(how))?.[1];
  return typeof value === "number" && digits ? value.toFixed(Number(digits)) : text(value);
}

type Control = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement | HTMLButtonElement;

/** What a control tells when it has been changed, or clicked; null: nothing, as what was written is no value. */
type Tell<T> = (made: T) => Omit<Move, "model"> | null;

function control<T extends Control>(id: string, made: T, about: Partial<T> = {}, tell?: Tell<T>): T {
  controls += 1;
  Object.assign(made, about, { disabled: !moves || !tell || own(id)?.state?.["disabled"] === true });
  made.dataset["key"] = `${id} ${controls}`;
  made.addEventListener(made instanceof HTMLButtonElement ? "click" : "change", () => {
    const told = tell?.(made);
    if (moves && told) parent.postMessage({ move: { model: id, ...told } satisfies Move }, "*");
  });
  return made;
}

const labelOf = (id: string) => text(own(id)?.state?.["description"]) || "Value";
const input = (id: string, type: string, value: unknown, read?: (written: string) => unknown) =>
  control(id, make("input"), { type, value: text(value), ariaLabel: labelOf(id) }, read && (({ value: written }) => {
    const found = read(written);
    return found === undefined ? null : { state: { value: found } };
  }));
const readText = (written: string) => written;
const readNumber = (written: string) => (written.trim() !== "" && Number.isFinite(Number(written)) ? Number(written) : undefined);
const readWhole = (written: string) => { const found = readNumber(written); return found === undefined ? undefined : Math.round(found); };

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

function slider(id: string, state: State): Node[] {
  const labels = list(state["_options_labels"]);
  const chosen = labels.length ? state["index"] : state["value"];
  const values = Array.isArray(chosen) ? chosen : [chosen];
  const base = typeof state["base"] === "number" ? state["base"] : 0;
  const show = (each: unknown) => (labels.length ? text(labels[Number(each)]) : format(each, state["readout_format"]));
  const readout = make("span", "readout", values.map(show).join(" – "));
  const read = () => ranges.map((each) => (base ? base ** each.valueAsNumber : each.valueAsNumber)).sort((one, other) => one - other);
  const ranges: HTMLInputElement[] = values.map((value) => {
    const made = control(id, make("input"), { type: "range" }, () => ({ state: { [labels.length ? "index" : "value"]: Array.isArray(chosen) ? read() : read()[0] } }));
    made.min = text(labels.length ? 0 : state["min"]);
    made.max = text(labels.length ? labels.length - 1 : state["max"]);
    made.step = labels.length ? "1" : number(state["step"], 0) > 0 ? text(state["step"]) : "any";
    made.value = text(base && typeof value === "number" ? Math.log(value) / Math.log(base) : value);
    made.ariaLabel = text(state["description"]) || "Slider";
    made.addEventListener("input", () => { readout.textContent = read().map(show).join(" – "); });
    return made;
  });
  return [...ranges, ...(state["readout"] === false ? [] : [readout])];
}

function choice(id: string, state: State, many: boolean, rows: number): HTMLElement {
  const made = control(id, make("select"), { multiple: many, size: rows }, ({ selectedIndex, selectedOptions }) =>
    ({ state: { index: many ? [...selectedOptions].map((each) => each.index) : selectedIndex < 0 ? null : selectedIndex } }));
  const chosen = many ? list(state["index"]) : [state["index"]];
  list(state["_options_labels"]).slice(0, MOST_DRAWN).forEach((each, at) => made.append(Object.assign(make("option", "", text(each)), { selected: chosen.includes(at) })));
  made.ariaLabel = text(state["description"]) || "Choice";
  return made;
}

function choices(id: string, state: State, type: string): HTMLElement {
  return make("div", type === "radio" ? "box column" : "box", ...list(state["_options_labels"]).slice(0, 200).map((each, at) => {
    const tell = () => ({ state: { index: at } });
    if (type === "button") return control(id, make("button", "", text(each)), { ariaPressed: String(state["index"] === at) }, tell);
    return make("label", "", control(id, make("input"), { type, name: id, checked: state["index"] === at }, tell), ` ${text(each)}`);
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
    case "SelectionSlider": case "SelectionRangeSlider": return slider(id, state);
    case "IntText": case "BoundedIntText": return [input(id, "number", value, readWhole)];
    case "FloatText": case "BoundedFloatText": return [Object.assign(input(id, "number", value, readNumber), { step: "any" })];
    case "Text": case "Combobox": return [input(id, "text", value, readText)];
    case "Password": return [input(id, "password", "", readText)];
    case "Textarea": return [control(id, make("textarea"), { ariaLabel: labelOf(id), value: text(value), rows: number(state["rows"], 2) || 2 }, (made) => ({ state: { value: made.value } }))];
    case "Checkbox": return [make("label", "", control(id, make("input"), { type: "checkbox", checked: value === true, ariaLabel: labelOf(id) }, (made) => ({ state: { value: made.checked } })), ` ${text(state["description"])}`)];
    case "Valid": return [make("span", "", value === true ? "✓" : `✗ ${text(state["readout"])}`)];
    case "Button": case "ToggleButton": case "FileUpload": {
      const tell: Record<string, Tell<HTMLButtonElement>> = { Button: () => ({ event: "click" }), ToggleButton: () => ({ state: { value: value !== true } }) };
      const made = control(id, make("button", "", text(state["description"]) || text(state["tooltip"]) || "Button"), {}, tell[name]);
      const colour = stateOf(state["style"])["button_color"];
      if (typeof colour === "string") made.style.backgroundColor = colour;
      if (name === "ToggleButton") made.ariaPressed = String(value === true);
      return [made];
    }
    case "Dropdown": return [choice(id, state, false, 1)];
    case "Select": return [choice(id, state, false, number(state["rows"], 5) || 5)];
    case "SelectMultiple": return [choice(id, state, true, number(state["rows"], 5) || 5)];
    case "RadioButtons": return [choices(id, state, "radio")];
    case "ToggleButtons": return [choices(id, state, "button")];
    case "ColorPicker": return [input(id, "color", value, readText), make("span", "readout", text(value))];
    case "DatePicker": case "Time": case "Datetime": case "NaiveDatetime": return [input(id, "text", writeDate(value))];
    case "TagsInput": case "ColorsInput": case "IntsInput": case "FloatsInput": return [input(id, "text", list(value).map(text).join(", "))];
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
  const label = make("label", "", ...(state["description_allow_html"] === true ? html(description).childNodes : [description]));
  const width = stateOf(state["style"])["description_width"];
  if (typeof width === "string" && width) label.style.width = width === "initial" ? "auto" : width;
  const classes = BOXES[short] ?? `widget wide${state["orientation"] === "vertical" ? " upright" : ""}`;
  const made = make("div", classes, ...(description && classes.startsWith("widget") ? [label] : []), ...parts);
  for (const [property, value] of Object.entries(stateOf(state["layout"]))) {
    if (LAYOUT.test(property) && typeof value === "string") made.style.setProperty(property.replaceAll("_", "-"), value);
  }
  return made;
}

type Shown = NonNullable<Given["widget"]>;
/** In which somebody writes, and has not ended. */
let dirty: Control | null = null;
addEventListener("input", ({ target }) => { if (target instanceof HTMLTextAreaElement || (target instanceof HTMLInputElement && ["text", "number", "password"].includes(target.type))) dirty = target; });
addEventListener("change", () => { dirty = null; });
// A browser tells of no change of what was drawn again meanwhile.
addEventListener("focusout", ({ target }) => { if (dirty !== null && target === dirty) dirty.dispatchEvent(new Event("change", { bubbles: true })); });

/** What came while somebody held a slider: it would be drawn under their hand. */
let later: Shown | null = null;
let held = false;
addEventListener("pointerdown", (event) => { held = event.target instanceof HTMLInputElement && event.target.type === "range"; });
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { held = false; setTimeout(() => { if (later) show(later); }); });

function show(widget: Shown): void {
  if (held) { later = widget; return; }
  later = null;
  models = (widget.state ?? {}) as Record<string, Model>;
  moves = widget.moves === true;
  drawn = controls = characters = 0;
  const before = document.activeElement as Control | null;
  const key = before?.dataset?.["key"];
  const written = before !== null && before === dirty ? before.value : null;
  dirty = null;
  const root = draw(widget.view, 0);
  const hint = "Its controls show how they stand. They move while its kernel lives and nothing runs, for who may run code.";
  document.body.replaceChildren(...(own(widget.view) ? [root] : []), ...(controls && widget.moves === false ? [make("p", "hint", hint)] : []));
  // Who was at a control stays there, with what they have written.
  const after = key ? [...document.querySelectorAll<Control>("[data-key]")].find((each) => each.dataset["key"] === key) : undefined;
  if (after && written !== null) { after.value = written; dirty = after; }
  after?.focus();
}

listen(({ widget }) => { if (widget) show(widget); });
