// The colours of code, which the editor and the cells that have run share, and parsers of the languages that cells have.

import { highlightCode, tagHighlighter, tags, type Highlighter } from "@lezer/highlight";
import type { Parser } from "@lezer/common";
import { parser as python } from "@lezer/python";

/** Each is a class, `code-keyword`, in the colour of the variable of that name. */
export const KINDS = ["keyword", "operator", "string", "number", "comment", "name"] as const;

export const HIGHLIGHTER: Highlighter = tagHighlighter([
  { tag: [tags.keyword, tags.modifier, tags.self], class: "code-keyword" },
  { tag: [tags.operator, tags.meta], class: "code-operator" },
  { tag: [tags.operatorKeyword], class: "code-keyword" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp, tags.escape], class: "code-string" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], class: "code-number" },
  { tag: tags.comment, class: "code-comment" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className), tags.definition(tags.typeName)], class: "code-name" },
]);

export interface Piece { text: string; classes: string }

/** What turns code of a language into pieces; null: nothing here knows that language. */
export async function findParser(language: string): Promise<Parser | null> {
  if (language === "python") return python;
  if (language !== "javascript" && language !== "typescript") return null;
  const { parser } = await import("@lezer/javascript");
  return language === "typescript" ? parser.configure({ dialect: "ts" }) : parser;
}

export function colour(code: string, parser: Parser): Piece[] {
  const pieces: Piece[] = [];
  const put = (text: string, classes: string) => {
    const last = pieces.at(-1);
    if (last?.classes === classes) last.text += text; else pieces.push({ text, classes });
  };
  highlightCode(code, parser.parse(code), HIGHLIGHTER, put, () => put("\n", ""));
  return pieces;
}
