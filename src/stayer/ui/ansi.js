// Colours of a terminal, as spans of text. Pure: makes no elements, and knows no markup.

/**
 * @typedef {{bold?: boolean, dim?: boolean, italic?: boolean, underline?: boolean, inverse?: boolean, fore?: string, back?: string}} Look
 * `fore` and `back` are a number of the 16 colours, or `#rrggbb`
 * @typedef {{text: string, look: Look}} Span
 */

const SEQUENCE = /\x1b(?:\[([0-9;:]*)([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g;
const OTHERS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** @type {Look} */
export const PLAIN = {};

/**
 * One line in spans, and the look that the next line begins with.
 * @param {string} line @param {Look} look
 * @returns {{spans: Span[], look: Look}}
 */
export function parse(line, look = PLAIN) {
  // Who draws a bar of progress returns to the beginning of the line: its last state counts.
  const shown = line.endsWith("\r") ? line.slice(0, -1) : line;
  /** @type {Span[]} */
  const spans = [];
  let from = 0;
  const say = (/** @type {number} */ to) => {
    const piece = shown.slice(from, to);
    const back = piece.lastIndexOf("\r");
    if (back >= 0) spans.length = 0;
    const text = piece.slice(back + 1).replace(OTHERS, "\ufffd");
    if (text) spans.push({ text, look });
  };
  for (const found of shown.matchAll(SEQUENCE)) {
    say(found.index);
    from = found.index + found[0].length;
    if (found[2] === "m") look = changed(look, found[1]);
  }
  say(shown.length);
  return { spans, look };
}

/** The look after a line, without its text. @param {string} line @param {Look} look */
export function after(line, look) {
  if (!line.includes("\x1b")) return look;
  for (const found of line.matchAll(SEQUENCE)) if (found[2] === "m") look = changed(look, found[1]);
  return look;
}

/** @param {Look} look @param {string} codes @returns {Look} */
function changed(look, codes) {
  const numbers = codes.split(/[;:]/).map((code) => Number(code || 0));
  let next = { ...look };
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.inverse = true;
    else if (code === 22) delete next.bold, delete next.dim;
    else if (code === 23) delete next.italic;
    else if (code === 24) delete next.underline;
    else if (code === 27) delete next.inverse;
    else if (code >= 30 && code <= 37) next.fore = String(code - 30);
    else if (code >= 90 && code <= 97) next.fore = String(code - 82);
    else if (code === 39) delete next.fore;
    else if (code >= 40 && code <= 47) next.back = String(code - 40);
    else if (code >= 100 && code <= 107) next.back = String(code - 92);
    else if (code === 49) delete next.back;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(numbers.slice(at + 1));
      if (colour) next[code === 38 ? "fore" : "back"] = colour;
      at += used;
    }
  }
  return next;
}

/** A colour of the 256, or of them all, and how many numbers it took. @param {number[]} numbers @returns {[string | null, number]} */
function extended(numbers) {
  const [way, first, second, third] = numbers;
  if (way === 2) return [hex(first, second, third), 4];
  if (way !== 5 || !(first >= 0 && first <= 255)) return [null, 2];
  if (first < 16) return [String(first), 2];
  if (first > 231) return [hex(...Array(3).fill(8 + (first - 232) * 10)), 2];
  const steps = [0, 95, 135, 175, 215, 255];
  const cube = first - 16;
  return [hex(steps[Math.floor(cube / 36)], steps[Math.floor(cube / 6) % 6], steps[cube % 6]), 2];
}

/** @param {...number} parts */
function hex(...parts) {
  return `#${parts.map((part) => Math.min(255, Math.max(0, part | 0)).toString(16).padStart(2, "0")).join("")}`;
}
