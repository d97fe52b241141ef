// Terminal output as spans: colours and weights, lines that a carriage return overwrites. Pure.

export interface Span { text: string; classes: string; colour?: string; background?: string }

interface Look { bold: boolean; faint: boolean; italic: boolean; underline: boolean; reverse: boolean; colour?: string; background?: string }

const PLAIN: Look = { bold: false, faint: false, italic: false, underline: false, reverse: false };
const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[@-Z\\-_])/g;
const OTHER = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;
/** Of one text; what comes after has the looks of the last. */
export const MOST_SPANS = 5000;
const CUBE = [0, 95, 135, 175, 215, 255];

function palette(number: number): string {
  if (number < 16) return `var(--ansi-${number})`;
  if (number >= 232) { const grey = 8 + (number - 232) * 10; return `rgb(${grey} ${grey} ${grey})`; }
  const at = number - 16;
  return `rgb(${CUBE[Math.floor(at / 36)]} ${CUBE[Math.floor(at / 6) % 6]} ${CUBE[at % 6]})`;
}

/** The colour that follows 38 or 48, and how many numbers it took. */
function extended(codes: number[], at: number): [string | undefined, number] {
  if (codes[at] === 5 && codes[at + 1]! <= 255) return [palette(codes[at + 1]!), 2];
  if (codes[at] === 2) return [`rgb(${codes.slice(at + 1, at + 4).map((each) => Math.min(each, 255)).join(" ")})`, 4];
  return [undefined, 1];
}

function change(look: Look, parameters: string): Look {
  const codes = parameters.split(/[;:]/).map((each) => Number(each) || 0);
  let next = { ...look };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at]!;
    if (code === 0) next = { ...PLAIN };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.faint = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.reverse = true;
    else if (code === 27) next.reverse = false;
    else if (code === 22) next.bold = next.faint = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code >= 30 && code <= 37) next.colour = palette(code - 30);
    else if (code >= 90 && code <= 97) next.colour = palette(code - 82);
    else if (code === 39) next.colour = undefined;
    else if (code >= 40 && code <= 47) next.background = palette(code - 40);
    else if (code >= 100 && code <= 107) next.background = palette(code - 92);
    else if (code === 49) next.background = undefined;
    else if (code === 38 || code === 48) {
      const [found, used] = extended(codes, at + 1);
      if (code === 38) next.colour = found; else next.background = found;
      at += used;
    }
  }
  return next;
}

/** The theme's colours are legible on its own ground alone: on another they give way to one that is. */
function paint(look: Look): { colour?: string; background?: string } {
  const background = look.reverse ? look.colour ?? "var(--text)" : look.background;
  const colour = look.reverse ? look.background : look.colour;
  if (!background || (colour && !colour.startsWith("var("))) return { colour, background };
  if (background.startsWith("var(")) return { colour: "var(--ground)", background };
  const [red = 0, green = 0, blue = 0] = background.match(/\d+/g)!.map(Number);
  return { colour: 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000" : "#fff", background };
}

/** One line of which a carriage return begins again: what came last, with what stays behind something shorter. */
function overwriteLine(line: string): string {
  if (!line.includes("\r")) return line;
  const parts = line.split("\r");
  // Only of lines without colours is it known which letters stay behind a shorter one.
  if (line.includes("\x1b")) return parts.filter(Boolean).at(-1) ?? "";
  const letters: string[] = [];
  for (const part of parts) {
    let at = 0;
    for (const letter of part) letters[at++] = letter;
  }
  return letters.join("");
}

/** What a terminal would show of text with carriage returns: of each line what came last. */
export function overwrite(text: string): string {
  return text.includes("\r") ? text.split("\n").map(overwriteLine).join("\n") : text;
}

export function parseAnsi(text: string, most = MOST_SPANS): Span[] {
  return parseAfter(text, most, PLAIN)[0];
}

/** The lines of one text, each with its own spans: what colours one may come from a line before it. */
export function parseLines(lines: string[]): Span[][] {
  let look = PLAIN;
  let left = MOST_SPANS;
  return lines.map((line) => {
    let spans: Span[];
    [spans, look] = parseAfter(line, Math.max(left, 1), look);
    left -= spans.length;
    return spans;
  });
}

/** The spans of a text that begins in this look, and the look in which it ends. */
function parseAfter(text: string, most: number, look: Look): [Span[], Look] {
  const spans: Span[] = [];
  let last = 0;
  const clean = overwrite(text);
  const push = (piece: string) => {
    const shown = piece.replace(OTHER, "");
    if (!shown) return;
    const classes = [look.bold && "b", look.faint && "f", look.italic && "i", look.underline && "u"].filter(Boolean).join(" ");
    if (spans.length >= most) {
      spans[most - 1]!.text += shown;
      return;
    }
    spans.push({ text: shown, classes, ...paint(look) });
  };
  for (const match of clean.matchAll(ESCAPE)) {
    push(clean.slice(last, match.index));
    last = match.index + match[0].length;
    if (match[2] === "m" && !/[<-?]/.test(match[1]!)) look = change(look, match[1] ?? "");
  }
  push(clean.slice(last));
  return [spans, look];
}
