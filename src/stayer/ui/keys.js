// Keys: moving through lists, going to pages. A list is any element with `data-list`, a row any
// element with `data-row` that holds a link.

import { h } from "./dom.js";
import { go } from "./router.js";

const HELP = [
  ["j  k", "next, previous row"],
  ["Enter", "open the row"],
  ["x", "select the row"],
  ["/", "search"],
  ["a", "submit a task"],
  ["g n", "go to Now"],
  ["g t", "go to Tasks"],
  ["g o", "go to Flows"],
  ["g q", "go to Queues"],
  ["g s", "go to Schedules"],
  ["g w", "go to Nodes"],
  ["g f", "go to Failures"],
  ["g l", "go to Timeline"],
  ["r", "ask again at once"],
  ["Esc", "leave a field, close, go back"],
  ["?", "this list"],
];

/** @param {Record<string, string>} pages where `g` and a letter lead */
export function listen(pages) {
  let going = false;
  document.getElementById("help")?.addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = target.matches("input, textarea, select, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (typing) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (going && pages[event.key]) {
      going = false;
      event.preventDefault();
      return go(pages[event.key]);
    }
    going = event.key === "g";
    const act = {
      j: () => move(1),
      k: () => move(-1),
      "/": () => /** @type {HTMLElement | null} */ (document.querySelector("[data-search]"))?.focus(),
      "?": help,
      a: () => /** @type {HTMLElement | null} */ (document.querySelector("#submit:not([hidden])"))?.click(),
      r: () => document.dispatchEvent(new Event("stayer:refresh")),
      x: () => /** @type {HTMLElement | null} */ (target.closest("[data-row]")?.querySelector("input[type=checkbox]"))?.click(),
      Escape: () => {
        if (/^#\/(task|flow)\//.test(location.hash)) history.back();
      },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

/** Move the focus among the rows. A list that shows a part of its rows moves it by itself. @param {number} step */
function move(step) {
  const list = document.querySelector("[data-list]");
  if (!list) return;
  if (!list.dispatchEvent(new CustomEvent("stayer:move", { detail: step, cancelable: true }))) return;
  const links = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[data-row] a")]).filter((link, index, all) =>
    index === 0 || link.closest("[data-row]") !== all[index - 1].closest("[data-row]"));
  const at = links.findIndex((link) => link.closest("[data-row]")?.contains(document.activeElement));
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.closest("[data-row]")?.scrollIntoView({ block: "nearest" });
}

async function help() {
  const { show } = await import("./dialogs.js"); // seldom needed
  show("Keys", h("dl.keys", null, HELP.flatMap(([keys, what]) => [
    h("dt", null, keys.split(" ").filter(Boolean).map((key) => h("kbd", null, key))), h("dd", null, what)])));
}
