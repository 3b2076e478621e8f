// What failed, gathered by what is alike: many failures are few faults.

import { get, mayOperate } from "../api.js";
import { ask } from "../ask.js";
import { onIds } from "../bulk.js";
import { fill, h, keyed, text } from "../dom.js";
import { ago, clean, count, kind, many, seconds } from "../format.js";
import { icon } from "../icons.js";
import { live } from "../live.js";
import { empty, setTime, taskLink, toast, when } from "../parts.js";
import { sparkBars } from "../sparkbars.js";

export const title = "Failures";

const MOST = 2000;

/** What two failures of the same fault have in common: digits and addresses differ. @param {any} task */
export function fingerprint(task) {
  const error = task.error ?? { type: task.ending ?? "failed", message: "" };
  const first = String(error.message ?? "").split("\n", 1)[0].slice(0, 300)
    .replace(/\b0x[0-9a-f]+|\d+/gi, "#").replace(/(['"`])(?:(?!\1).){1,200}\1/g, "$1…$1");
  return { key: `${error.type}\n${kind(task)}\n${first}`, type: error.type, kind: kind(task) || task.queue, line: first };
}

/** @param {HTMLElement} main @param {import("../router.js").Place} _place @param {AbortSignal} signal */
export function open(main, _place, signal) {
  const list = h("div.failures", { "data-list": true });
  const about = h("p.quiet");
  const none = h("div");
  fill(main, h("h1", null, "Failures"), about, list, none);
  const known = live(signal, async (stop) => {
    /** @type {any[]} */
    const tasks = [];
    let cursor = null;
    do {
      const page = await get("v1/tasks", { state: "failed", limit: 500, brief: true, cursor }, { signal: stop });
      tasks.push(...page.tasks);
      cursor = page.next;
    } while (cursor && tasks.length < MOST);
    const groups = gathered(tasks);
    text(about, tasks.length ? `${cursor ? "The newest " : ""}${many(tasks.length, "failed task")}, ${groups.length === 1 ? "one fault" : `${count(groups.length)} different faults`}.` : "");
    keyed(list, groups, (group) => group.key, (group) => groupCard(group, () => known.refresh()));
    fill(none, tasks.length ? null : empty("Nothing has failed", "Tasks that fail are kept here until they are retried, deleted or purged."));
  }, { interval: 10, matters: (event) => ["failed", "retried", "pending"].includes(event.event) });
}

/** @param {any[]} tasks */
function gathered(tasks) {
  const groups = new Map();
  for (const task of tasks) {
    const found = fingerprint(task);
    if (!groups.has(found.key)) groups.set(found.key, { ...found, tasks: [] });
    groups.get(found.key).tasks.push(task);
  }
  const newest = (/** @type {any} */ group) => Math.max(...group.tasks.map((/** @type {any} */ task) => seconds(task.finished_at) ?? 0));
  return [...groups.values()].sort((a, b) => b.tasks.length - a.tasks.length || newest(b) - newest(a));
}

/** @param {any} first @param {() => void} again */
function groupCard(first, again) {
  let group = first;
  const number = h("div.figure", { "data-mood": "failed" });
  const last = h("time.under");
  const bars = sparkBars();
  const members = h("ol.members");
  const sample = h("p.sample");
  const more = h("p.under");
  const node = h("section.card.failure", { "data-row": true, "aria-label": `${clean(first.type, 60)} in ${clean(first.kind, 60)}` },
    h("div.failure-count", null, number, last),
    h("div.failure-what", null, h("h3", null, h("span.failure-type", null, clean(first.type, 80)), h("span.quiet", null, " in "), clean(first.kind, 80)), sample, bars.node,
      h("details", null, h("summary", null, "Tasks"), members, more)),
    mayOperate() ? h("button.button", { type: "button", onclick: () => ask({
      heading: `Retry ${many(group.tasks.length, "task")}?`, sentence: `All that failed with ${clean(group.type, 60)} in ${clean(group.kind, 60)} go back to their queues.`, button: "Retry them all",
      act: async (_, progress) => {
        const done = await onIds("retry", group.tasks.map((/** @type {any} */ task) => task.id), (sum) => progress(`${count(sum)} so far …`));
        toast(`${many(done, "task")} back in the queues`);
        again();
      } }) }, icon("retry"), "Retry all") : null);
  return { node, update: (/** @type {any} */ item) => {
    group = item;
    text(number, count(item.tasks.length));
    const newest = item.tasks.reduce((/** @type {any} */ a, /** @type {any} */ b) => ((seconds(a.finished_at) ?? 0) > (seconds(b.finished_at) ?? 0) ? a : b));
    setTime(last, newest.finished_at, ago(newest.finished_at));
    text(sample, clean(newest.error?.message ?? newest.ending ?? "", 400));
    bars.update(item.tasks.map((/** @type {any} */ task) => seconds(task.finished_at)));
    keyed(members, item.tasks.slice(0, 20), (task) => task.id, (task) => ({ node: h("li", null, taskLink(task.id), h("span.quiet", null, clean(task.node ?? "", 24)), when(task.finished_at)) }));
    text(more, item.tasks.length > 20 ? `and ${count(item.tasks.length - 20)} more` : "");
  } };
}
