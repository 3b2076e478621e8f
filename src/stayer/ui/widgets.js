// Small pieces that many views are made of.

import { attribute, fill, h, style, text } from "./dom.js";
import { absolute, ago, clean, count, fraction, percent } from "./format.js";
import { icon } from "./icons.js";
import { href } from "./router.js";

/** A state or an ending, in its colour. @param {string} word */
export function badge(word) {
  return h(`span.badge`, { "data-state": word }, word);
}

/** @param {Element} element @param {string} word */
export function setBadge(element, word) {
  attribute(element, "data-state", word);
  return text(element, word);
}

/** How a task stands, in one word: a pause or a cancel that is on its way is more than its state. @param {any} task */
export function standing(task) {
  const asked = (task.orders ?? []).map((/** @type {any} */ order) => order.verb);
  if (task.state === "started" || task.state === "reserved") {
    if (asked.includes("cancel")) return "cancelling";
    if (task.paused) return "paused";
  }
  return task.held ? "held" : task.state;
}

/** How long ago, with the moment itself as its title. @param {string | null} time */
export function when(time) {
  const element = h("time", { datetime: time, title: absolute(time) }, ago(time));
  return element;
}

/** @param {Element} element @param {string | null} time @param {string} shown */
export function setTime(element, time, shown) {
  attribute(element, "datetime", time);
  attribute(element, "title", absolute(time));
  return text(element, shown);
}

/** A bar of progress that can be updated. */
export function progressBar() {
  const value = h("div.bar-value");
  const node = h("div.bar", { role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 }, value);
  return {
    node,
    /** @param {any} task */
    update(task) {
      const part = task.state === "complete" ? 1 : fraction(task.progress);
      const going = task.state === "started" && !task.paused;
      attribute(node, "aria-valuenow", part === null ? null : Math.floor(part * 100));
      attribute(node, "aria-label", part === null ? "no progress reported" : `progress ${percent(part)}`);
      attribute(node, "data-kind", part === null ? (going ? "unknown" : "none") : null);
      attribute(node, "data-state", standing(task));
      style(value, "transform", `scaleX(${part === null ? 0 : part.toFixed(4)})`);
    },
  };
}

/** An id that leads to its task. @param {string} id */
export const taskLink = (id) => h("a.id", { href: href("task", id), title: clean(id, 300) }, clean(id, 40));

/** A queue that leads to its tasks. @param {string} name */
export const queueLink = (name) => h("a.quiet", { href: href("tasks", "", { queue: name }) }, clean(name, 40));

/** A command to be copied. @param {string} command */
export function copyable(command) {
  const button = h("button.icon-button", { type: "button", "aria-label": "Copy the command" }, icon("copy"));
  button.addEventListener("click", async () => {
    await copy(command);
    fill(button, icon("check"));
    setTimeout(() => fill(button, icon("copy")), 1500);
  });
  return h("div.copyable", null, h("code", null, command), button);
}

/** @param {string} said */
export async function copy(said) {
  try {
    await navigator.clipboard.writeText(said);
  } catch {
    // Without https there is no clipboard; the old way still works there.
    const area = h("textarea", { class: "unseen", value: said, "aria-hidden": "true" });
    document.body.append(area);
    /** @type {HTMLTextAreaElement} */ (area).select();
    document.execCommand("copy");
    area.remove();
  }
}

/** What to do where there is nothing yet. @param {string} heading @param {string} sentence @param {...string} commands */
export function empty(heading, sentence, ...commands) {
  return h("div.empty", null, h("h3", null, heading), say(h("p"), sentence), commands.map((command) => h("div", null, copyable(command))));
}

/** A sentence; what is in backticks in it is a command. @param {HTMLElement} node @param {string} sentence */
export function say(node, sentence) {
  if (node.dataset.said === sentence) return node;
  node.dataset.said = sentence;
  fill(node, sentence.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part)));
  return node;
}

/** How many are in each of some states, as pieces of one bar. @param {string[]} states */
export function stackBar(states) {
  const node = h("div.stack", { role: "img" }, states.map((each) => h("span", { "data-state": each })));
  return {
    node,
    /** @param {Record<string, number>} counts */
    update(counts) {
      attribute(node, "aria-label", states.map((each) => `${counts[each]} ${each}`).join(", "));
      states.forEach((each, index) => {
        const piece = /** @type {HTMLElement} */ (node.children[index]);
        attribute(piece, "hidden", !counts[each]); // an empty piece would still have its gap
        style(piece, "flex-grow", String(counts[each]));
      });
    },
  };
}

/** @param {string} heading @param {...(import("./dom.js").Child | import("./dom.js").Child[])} children */
export function card(heading, ...children) {
  const id = `h${(card.made += 1)}`;
  return h("section.card", { "aria-labelledby": id }, h("h2", { id }, heading), children.flat());
}
card.made = 0;

/** A short word at the edge of the page. @param {string} said @param {"good" | "bad"} [mood] */
export function toast(said, mood = "good") {
  const node = say(h("div.toast", { "data-mood": mood }), said);
  document.getElementById("toasts")?.append(node);
  setTimeout(() => node.remove(), mood === "bad" ? 8000 : 4000);
}

/** Tell those who listen to the page. @param {string} said */
export function announce(said) {
  const region = document.getElementById("news");
  if (region) region.textContent = said;
}

/** `Tasks` with a number. @param {string} label */
export function tile(label) {
  const figure = h("div.figure", null, "–");
  const rest = h("div.tile-rest", null, "\u00a0");
  const node = h("a.tile", { href: "#/now" }, h("div.tile-label", null, label), figure, rest);
  return {
    node,
    /** @param {string | number | null} value @param {string} more @param {string} address @param {string} [mood] @param {string} [moreMood] of the line below */
    update(value, more, address, mood, moreMood) {
      text(figure, typeof value === "string" ? value : count(value));
      text(rest, more || "\u00a0");
      attribute(node, "href", address);
      attribute(node, "data-mood", mood);
      attribute(rest, "data-mood", moreMood);
    },
  };
}
