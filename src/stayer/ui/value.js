// A JSON value for people: indented, coloured, and no more of it than can be read.

import { h } from "./dom.js";
import { clean, size } from "./format.js";

const LONGEST = 20_000;

/** A value for a list: `lr=0.1 seed=3`, or as JSON. @param {unknown} given @param {number} [length] */
export function inOneLine(given, length = 160) {
  if (given && typeof given === "object" && !Array.isArray(given)) {
    return clean(Object.entries(given).map(([name, value]) => `${name}=${typeof value === "string" && /^\S+$/.test(value) ? value : JSON.stringify(value)}`).join(" "), length);
  }
  return clean(typeof given === "string" ? given : JSON.stringify(given), length);
}

/** @param {unknown} given */
export function value(given) {
  if (given && typeof given === "object" && Object.keys(given).join() === "base64") {
    const { base64 } = /** @type {{base64: string}} */ (given);
    return h("p.quiet", null, `${size(Math.floor(base64.length * 0.75))} of bytes`);
  }
  const written = JSON.stringify(given, null, 2) ?? "null";
  const shown = written.slice(0, LONGEST);
  const block = h("pre.value", { tabindex: 0 });
  let from = 0;
  for (const found of shown.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g)) {
    block.append(shown.slice(from, found.index));
    block.append(h(`span.${found[2] ? "v-key" : found[1] ? "v-text" : "v-number"}`, null, found[1] ?? found[0]), found[2] ?? "");
    from = found.index + found[0].length;
  }
  block.append(shown.slice(from));
  if (written.length > LONGEST) block.append(h("span.quiet", null, `\n… ${size(written.length - LONGEST)} more`));
  return block;
}
