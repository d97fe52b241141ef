// The editor of a cell: CodeMirror with Python, and the kernel's own completions.

import { autocompletion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec } from "@codemirror/state";
import { EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { ask } from "./api";

export interface Editor { submit(): Promise<void>; destroy(): void }

const HIGHLIGHT = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)], color: "var(--code-name)" },
]);
const THEME = EditorView.theme({
  "&": { background: "var(--field)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "4px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "13px", lineHeight: "1.5", maxHeight: "40vh" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--selection) !important" },
  ".cm-tooltip": { background: "var(--field)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--on-accent)" },
});

/** The editor in this place. Its styles are in a shadow root: the page's policy lets no script write a style sheet. */
export function makeEditor(place: HTMLElement, session: string, run: (code: string) => Promise<boolean>): Editor {
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

  async function submit(): Promise<void> {
    const code = view.state.doc.toString();
    if (await run(code)) view.dispatch({ changes: { from: 0, to: view.state.doc.length } });
  }

  const submitKey = () => { void submit(); return true; };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      extensions: [
        Prec.highest(keymap.of([{ key: "Shift-Enter", run: submitKey }, { key: "Mod-Enter", run: submitKey }])),
        history(), EditorView.lineWrapping, bracketMatching(), indentOnInput(), indentUnit.of("    "), python(),
        autocompletion({ override: [complete], activateOnTyping: false, interactionDelay: 0 }),
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
        syntaxHighlighting(HIGHLIGHT), THEME, placeholder("Code to run in this session; Shift+Enter runs it"),
        EditorView.contentAttributes.of({ "aria-label": "Code to run" }),
      ],
    }),
  });
  return { submit, destroy: () => view.destroy() };
}
