// Markdown and LaTeX as a notebook shows them: formulas become MathML, which browsers draw without fonts that this page would bring.

import { Marked, type TokenizerAndRendererExtension, type Tokens } from "marked";
import temml from "temml";
import { listen, put } from "./talk";

const LONGEST_FORMULA = 20_000;
/** Macros may make much of little. */
const OPTIONS = { trust: false, maxExpand: 1000, maxSize: [20, 40] as [number, number], throwOnError: false };

function formula(latex: string, displayMode: boolean): string {
  if (latex.length > LONGEST_FORMULA) return escape(latex);
  return temml.renderToString(latex, { ...OPTIONS, displayMode });
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);
}

/** What a tokenizer makes of one form of formulas; the first group that matched is its LaTeX. */
function extension(name: string, level: "block" | "inline", begins: RegExp, whole: RegExp, displayMode: boolean): TokenizerAndRendererExtension {
  return {
    name, level,
    start: (text) => text.match(begins)?.index,
    tokenizer(text) {
      const found = whole.exec(text);
      if (!found) return undefined;
      return { type: name, raw: found[0], text: found.slice(1).find((each) => each !== undefined) ?? found[0] };
    },
    renderer: (token: Tokens.Generic) => formula(String(token["text"]), displayMode),
  };
}

const marked = new Marked({ async: false, gfm: true });
marked.use({ extensions: [
  extension("formulas", "block", /\$\$|\\\[|\\begin\{/,
    /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\]|(\\begin\{([a-z]+\*?)\}[\s\S]+?\\end\{\4\}))[ \t]*(?:\n|$)/, true),
  extension("display", "inline", /\$\$|\\\[/, /^(?:\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\])/, true),
  extension("formula", "inline", /\$|\\\(/, /^(?:\$(?![\s\d]*\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)|\\\(([\s\S]+?)\\\))/, false),
] });

/** What `text/latex` has is a formula with its dollars, or text with formulas in it. */
function fromLatex(latex: string): string {
  const whole = /^\s*(?:(\$\$?)([\s\S]*?[^\\])\1|\\\[([\s\S]*)\\\])\s*$/.exec(latex);
  if (whole && !(whole[2] ?? "").includes("$")) return formula((whole[2] ?? whole[3])!, true);
  if (/^\s*\\begin\{/.test(latex)) return formula(latex, true);
  return marked.parse(latex) as string;
}

listen(({ text, latex }) => {
  if (typeof text === "string") put(latex ? fromLatex(text) : marked.parse(text) as string);
});
