// The editor of a cell: CodeMirror with Python, and the kernel's own completions.

import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import { EditorView, hoverTooltip, keymap, placeholder, showTooltip, type Tooltip } from "@codemirror/view";
import { parseAnsi } from "./ansi";
import { ask } from "./api";
import { HIGHLIGHTER, KINDS } from "./colours";

export interface Editor { submit(): Promise<void>; focus(): void; destroy(): void }
/** What the page does for its editor: `recall` has the code that ran so many cells ago. */
export interface Around { run: (code: string) => Promise<boolean>; leave: () => void; recall: (back: number) => string | undefined }

const THEME = EditorView.theme({
  "&": { background: "var(--field)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "4px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "13px", lineHeight: "1.5", maxHeight: "40vh" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--selection) !important" },
  ".cm-tooltip": { background: "var(--field)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip.inspected": { maxWidth: "min(720px, 90vw)", maxHeight: "40vh", overflow: "auto", padding: "4px 8px", whiteSpace: "pre-wrap", overflowWrap: "anywhere", font: "12px/1.45 var(--mono)" },
  ".inspected .b": { fontWeight: "700" },
  ...Object.fromEntries(KINDS.map((each) => [`.code-${each}`, { color: `var(--code-${each})` }])),
  ".code-comment": { color: "var(--code-comment)", fontStyle: "italic" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--on-accent)" },
});

const setInspected = StateEffect.define<Tooltip | null>();
/** What the kernel knows of a name that was asked about by a key: until the text or the place changes. */
const inspected = StateField.define<Tooltip | null>({
  create: () => null,
  update(shown, change) {
    for (const effect of change.effects) if (effect.is(setInspected)) return effect.value;
    return change.docChanged || change.selection ? null : shown;
  },
  provide: (field) => showTooltip.from(field),
});

function describe(pos: number, text: string): Tooltip {
  return { pos, above: true, create: () => {
    const dom = document.createElement("div");
    dom.className = "inspected";
    dom.tabIndex = 0;
    dom.setAttribute("role", "status");
    for (const { text: piece, classes, colour } of parseAnsi(text)) {
      const span = document.createElement("span");
      span.textContent = piece;
      span.className = classes;
      // The sixteen colours of a terminal fit light and dark; the others, which the kernel chose for one of them, may not.
      if (colour?.startsWith("var(")) span.style.color = colour;
      dom.append(span);
    }
    return { dom };
  } };
}

/** The editor in this place. Its styles are in a shadow root: the page's policy lets no script write a style sheet. */
export function makeEditor(place: HTMLElement, session: string, { run, leave, recall }: Around): Editor {
  const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });

  async function complete(context: CompletionContext): Promise<CompletionResult | null> {
    if (!context.explicit && !context.matchBefore(/[\w.]$/)) return null;
    const code = context.state.doc.toString();
    try {
      // The kernel counts characters, the editor units of UTF-16.
      const found = await ask<{ matches: { text: string; type: string }[]; cursor_start: number }>("POST",
        `/v1/sessions/${session}/completions`, {
          code, cursor_position: [...code.slice(0, context.pos)].length, timeout_seconds: 30 });
      const from = [...code].slice(0, found.cursor_start).join("").length;
      return { from, options: found.matches.map(({ text, type }) => ({ label: text, detail: type })), validFor: /^\w*$/ };
    } catch {
      return null; // the kernel is busy
    }
  }

  async function inspect(pos: number): Promise<Tooltip | null> {
    const code = view.state.doc.toString();
    try {
      const { data } = await ask<{ data: Record<string, string> }>("POST", `/v1/sessions/${session}/inspections`, {
        code, cursor_position: [...code.slice(0, pos)].length, timeout_seconds: 30 });
      const text = data["text/plain"];
      return text && view.state.doc.toString() === code ? describe(pos, text.trimEnd()) : null;
    } catch {
      return null; // the kernel is busy
    }
  }

  /** As in Jupyter: where a name ends or arguments begin. After nothing but spaces the key indents less. */
  const inspectKey = (): boolean => {
    const { main } = view.state.selection;
    const line = view.state.doc.lineAt(main.head);
    if (!main.empty || !line.text.slice(0, main.head - line.from).trim()) return false;
    void inspect(main.head).then((found) => {
      const said = found ?? describe(main.head, "The kernel knows nothing of this name, or is busy.");
      if (view.state.selection.main.head === main.head) view.dispatch({ effects: setInspected.of(said) });
    });
    return true;
  };
  const closeKey = (): boolean => {
    if (!view.state.field(inspected)) return false;
    view.dispatch({ effects: setInspected.of(null) });
    return true;
  };

  /** As in a terminal: where nothing has been written, the code that ran before, and what ran before that. */
  let back = -1;
  const recallKey = (step: number) => (): boolean => {
    const text = view.state.doc.toString();
    if (text !== (back < 0 ? "" : recall(back))) return false;
    const found = back + step < 0 ? "" : recall(back + step);
    if (found === undefined || back + step < -1) return false;
    back += step;
    view.dispatch({ changes: { from: 0, to: text.length, insert: found }, selection: { anchor: found.length } });
    return true;
  };
  const leaveKey = (): boolean => { leave(); return true; };

  /** The code goes at once, so that it is sent once and what is written meanwhile stays. If it was not taken it comes back. */
  async function submit(): Promise<void> {
    const code = view.state.doc.toString();
    if (!code.trim()) return;
    back = -1;
    view.dispatch({ changes: { from: 0, to: code.length } });
    if (await run(code)) return;
    const written = view.state.doc.length > 0;
    view.dispatch({ changes: { from: 0, insert: written ? `${code}\n` : code }, selection: written ? undefined : { anchor: code.length } });
  }

  const submitKey = () => { void submit(); return true; };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      extensions: [
        Prec.highest(keymap.of([{ key: "Shift-Enter", run: submitKey }, { key: "Mod-Enter", run: submitKey },
          { key: "Shift-Tab", run: inspectKey }, { key: "Escape", run: closeKey }])),
        Prec.high(keymap.of([{ key: "ArrowUp", run: recallKey(1) }, { key: "ArrowDown", run: recallKey(-1) }])),
        inspected, hoverTooltip((own, pos) => (own.state.wordAt(pos) ? inspect(pos) : null), { hoverTime: 500 }),
        history(), EditorView.lineWrapping, bracketMatching(), indentOnInput(), indentUnit.of("    "), python(),
        autocompletion({ override: [complete], activateOnTyping: false, interactionDelay: 0 }),
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab, { key: "Escape", run: leaveKey }]),
        syntaxHighlighting(HIGHLIGHTER), THEME, placeholder("Code to run in this session; Shift+Enter runs it"),
        EditorView.contentAttributes.of({ "aria-label": "Code to run" }),
      ],
    }),
  });
  return { submit, focus: () => view.focus(), destroy: () => view.destroy() };
}
