// The log of an attempt: read in pieces, kept as lines, shown in part, followed while it grows.

import { download, get, taskPath } from "./api.js";
import { after, parse, PLAIN } from "./ansi.js";
import { attribute, fill, h, text } from "./dom.js";
import { count, many, size } from "./format.js";
import { icon } from "./icons.js";
import { toast } from "./widgets.js";
import { virtual } from "./virtual.js";

const LINE = 19;
const PORTION = 500_000;
const LONGEST = 4000;
/** Beyond so many lines the oldest are forgotten. */
const MOST = 200_000;

/** @typedef {{text: string, look: import("./ansi.js").Look, gap?: boolean}} Line */

/** @param {string} id @param {AbortSignal} signal */
export function logView(id, signal) {
  /** @type {Line[]} */
  let lines = [];
  let look = PLAIN;
  let open = false; // the last line has no end yet
  let attempt = 0;
  let offset = 0;
  let forgotten = 0;
  let follow = true;
  /** @type {number[]} */
  let hits = [];
  let hit = -1;
  let wanted = "";
  let decoder = new TextDecoder();

  const rows = h("div.log-rows");
  const scroller = h("div.log", { tabindex: 0, role: "log", "aria-label": "Log", "aria-live": "off" }, rows);
  const search = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "Search the log", "aria-label": "Search the log", "data-search": true }));
  const found = h("span.found", { role: "status" });
  const following = h("button.button.small", { type: "button", "aria-pressed": "true" }, icon("down"), "Follow");
  const about = h("span.quiet.log-about");
  const none = h("p.log-none", { hidden: true }, "It has printed nothing.");
  const chosen = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Attempt", hidden: true }));
  const raw = h("button.button.small", { type: "button", onclick: () => plain(`${taskPath(id, "log")}?attempt=${attempt}`).catch((error) => toast(error.message, "bad")) }, "Plain text");
  const step = (/** @type {number} */ by, /** @type {import("./icons.js").Icon} */ name, /** @type {string} */ label) =>
    h("button.icon-button", { type: "button", "aria-label": label, onclick: () => seek(by) }, icon(name));
  const node = h("div.log-box", null,
    h("div.log-tools", null, chosen, search, step(-1, "up", "Previous hit"), step(1, "down", "Next hit"), found, h("span.grow"), about, raw, following),
    scroller, none);

  const list = virtual(scroller, rows, { height: LINE, make: (index) => row(lines[index], wanted, hits[hit] === index) });

  function append(/** @type {string} */ piece) {
    const parts = piece.split("\n");
    parts.forEach((part, index) => {
      if (index === 0 && open) lines[lines.length - 1].text += part;
      else if (index < parts.length - 1 || part) lines.push({ text: part, look });
      else return;
      if (index < parts.length - 1) look = after(lines[lines.length - 1].text, lines[lines.length - 1].look);
    });
    open = parts[parts.length - 1] !== "";
  }

  function reset(/** @type {number} */ next) {
    lines = [];
    look = PLAIN;
    open = false;
    attempt = next;
    offset = 0;
    forgotten = 0;
    hits = [];
    hit = -1;
    decoder = new TextDecoder();
    list.clear();
  }

  function shown(/** @type {number} */ from) {
    if (lines.length > MOST) {
      forgotten += lines.length - MOST;
      lines = lines.slice(-MOST);
      from = 0;
    }
    none.hidden = lines.length > 0;
    text(about, lines.length ? `${many(lines.length + forgotten, "line")}, ${size(offset)}` : "");
    list.clear((index) => index >= from);
    list.setTotal(lines.length);
    if (wanted) look_for(wanted, false);
    if (follow) requestAnimationFrame(() => (scroller.scrollTop = scroller.scrollHeight));
  }

  /** Read what is new. */
  async function read() {
    if (!attempt) {
      none.hidden = false;
      return;
    }
    const reading = attempt;
    for (;;) {
      const page = await get(taskPath(id, "log/pieces"), { attempt: reading, start: offset, limit: PORTION }, { signal });
      if (reading !== attempt || signal.aborted) return;
      none.hidden = lines.length > 0 || page.pieces.length > 0;
      if (!page.pieces.length) return;
      const from = Math.max(0, lines.length - 1);
      let length = 0;
      for (const piece of page.pieces) {
        const data = Uint8Array.from(atob(piece.data.base64), (letter) => letter.charCodeAt(0));
        if (piece.start > offset && offset) gap(piece.start - offset);
        append(decoder.decode(data, { stream: true }));
        offset = piece.start + data.length;
        length += data.length;
      }
      shown(from);
      if (length < PORTION / 2) return;
    }
  }

  function gap(/** @type {number} */ bytes) {
    if (open) append("\n");
    lines.push({ text: `… ${size(bytes)} left out …`, look: PLAIN, gap: true });
    open = false;
  }

  function look_for(/** @type {string} */ words, /** @type {boolean} */ jump) {
    wanted = words.toLowerCase();
    hits = [];
    if (wanted) lines.forEach((line, index) => line.text.toLowerCase().includes(wanted) && hits.length < 100_000 && hits.push(index));
    if (jump) hit = hits.length ? hits.length - 1 : -1;
    text(found, wanted ? (hits.length ? `${count(hit + 1)} of ${count(hits.length)}` : "not found") : "");
    if (!jump) return;
    list.clear();
    if (hit >= 0) seek(0);
  }

  function seek(/** @type {number} */ by) {
    if (!hits.length) return;
    setFollow(false);
    hit = (hit + by + hits.length) % hits.length;
    text(found, `${count(hit + 1)} of ${count(hits.length)}`);
    list.clear();
    list.reveal(hits[hit]);
  }

  function setFollow(/** @type {boolean} */ wish) {
    follow = wish;
    attribute(following, "aria-pressed", String(wish));
    if (wish) scroller.scrollTop = scroller.scrollHeight;
  }

  following.addEventListener("click", () => setFollow(!follow));
  search.addEventListener("input", () => look_for(search.value, true));
  search.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), seek(event.shiftKey ? 1 : -1)));
  scroller.addEventListener("wheel", (event) => event.deltaY < 0 && setFollow(false), { passive: true });
  scroller.addEventListener("keydown", (event) => ["PageUp", "Home", "ArrowUp"].includes(event.key) && setFollow(false));
  scroller.addEventListener("scroll", () => {
    if (!follow && scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 2) setFollow(true);
  });
  chosen.addEventListener("change", () => {
    reset(Number(chosen.value));
    read().catch(() => {});
  });
  signal.addEventListener("abort", () => list.stop());

  return {
    node,
    /** These attempts are known; the last one is shown unless another one was chosen. @param {number[]} numbers */
    update(numbers) {
      const last = numbers.at(-1) ?? 0;
      const newest = Number(chosen.options[chosen.options.length - 1]?.value ?? 0);
      if (last > newest) {
        const stay = newest > 0 && attempt < newest;
        fill(chosen, numbers.map((number) => h("option", { value: number }, `Attempt ${number}`)));
        chosen.hidden = last < 2;
        chosen.value = String(stay ? attempt : last);
        if (!stay) reset(last);
      }
      return read();
    },
  };
}

/** Show it in a tab of its own. A link can't: the server wants the secret of this page too. @param {string} path */
async function plain(path) {
  const tab = open("", "_blank"); // at once, or the browser takes it for a pop-up
  const address = URL.createObjectURL((await download(path)).slice(undefined, undefined, "text/plain; charset=utf-8"));
  if (tab) tab.location.replace(address);
  else location.assign(address);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** @param {Line} line @param {string} wanted @param {boolean} here */
function row(line, wanted, here) {
  const element = h("div.log-line", { "data-here": here, "data-gap": line.gap });
  const long = line.text.length > LONGEST * 4;
  const { spans } = parse(long ? `${line.text.slice(0, LONGEST)}… ${count(line.text.length - LONGEST)} more characters` : line.text, line.look);
  fill(element, spans.map((span) => dressed(span, wanted)).flat());
  return element;
}

/** @param {import("./ansi.js").Span} span @param {string} wanted @returns {Node[]} */
function dressed({ text: said, look }, wanted) {
  const parts = wanted ? marked(said, wanted) : [document.createTextNode(said)];
  if (!Object.keys(look).length) return parts;
  const { fore, back, ...rest } = look;
  const element = h("span", { class: Object.keys(rest).map((each) => `ansi-${each}`).join(" "), "data-fore": fore?.length && fore[0] !== "#" ? fore : null, "data-back": back?.length && back[0] !== "#" ? back : null }, parts);
  if (fore?.startsWith("#")) element.style.color = fore;
  if (back?.startsWith("#")) element.style.backgroundColor = back;
  return [element];
}

/** @param {string} said @param {string} wanted @returns {Node[]} */
function marked(said, wanted) {
  const lower = said.toLowerCase();
  /** @type {Node[]} */
  const parts = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    if (at > from) parts.push(document.createTextNode(said.slice(from, at)));
    parts.push(h("mark", null, said.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  parts.push(document.createTextNode(said.slice(from)));
  return parts;
}
