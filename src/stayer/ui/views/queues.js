// Queues: how deep, how old, what holds them up.

import { get, mayOperate, patch, post, remove } from "../api.js";
import { ask } from "../ask.js";
import { timeChart } from "../charts.js";
import { attribute, fill, h, keyed, style, text } from "../dom.js";
import { age, clean, count, duration, many, title as nameOf } from "../format.js";
import { icon } from "../icons.js";
import { depths } from "../history.js";
import { everySecond, live } from "../live.js";
import { badge, empty, setBadge, setTime, toast } from "../parts.js";
import { href } from "../router.js";
import { why } from "../waiting.js";

export const title = "Queues";

const HOURS = 24;
const OPEN = ["started", "reserved", "pending", "scheduled", "waiting"];
const ENDED = ["complete", "failed", "cancelled"];

/** @param {HTMLElement} main @param {import("../router.js").Place} _place @param {AbortSignal} signal */
export function open(main, _place, signal) {
  const list = h("div.queues", { "data-list": true });
  const none = h("div");
  fill(main, h("h1", null, "Queues"), list, none);
  /** @type {any[]} */
  let queues = [];
  /** @type {any[]} */
  let workers = [];
  /** @type {Map<string, any>} */
  const heads = new Map();
  /** @type {{times: number[], of: (queue: string) => any[]} | null} */
  let past = null;

  const draw = () => keyed(list, queues.map((queue) => ({ ...queue, past })), (queue) => queue.name, (queue) => queueCard(queue.name, () => known.refresh()));
  const known = live(signal, async (stop) => {
    const [found, who] = await Promise.all([get("v1/queues", {}, { signal: stop }), get("v1/workers", {}, { signal: stop })]);
    workers = who.workers;
    await Promise.all(found.queues.filter((/** @type {any} */ queue) => queue.counts.pending).slice(0, 20).map(async (/** @type {any} */ queue) => {
      const page = await get(`v1/queues/${encodeURIComponent(queue.name)}/peek`, { limit: 1 }, { signal: stop });
      heads.set(queue.name, page.tasks[0] ?? null);
    }));
    queues = found.queues.map((/** @type {any} */ queue) => ({ ...queue, why: why(queue, workers), head: queue.counts.pending ? heads.get(queue.name) : null }))
      .sort((/** @type {any} */ a, /** @type {any} */ b) => a.name.localeCompare(b.name));
    draw();
    fill(none, queues.length ? null : empty("No queues yet", "A queue is made by its first task.", "stayer add -q encode '{\"file\": \"a.mkv\"}'"));
  }, { interval: 3, matters: () => true });
  depths(signal, HOURS, 15, (times, of) => {
    past = { times, of };
    draw();
  });
  everySecond(signal, draw);
}

/** @param {string} name @param {() => void} again */
function queueCard(name, again) {
  const path = `v1/queues/${encodeURIComponent(name)}`;
  const state = badge("paused");
  const depth = h("div.figure");
  const oldest = h("div.under");
  const stack = h("div.stack", { role: "img" }, OPEN.map((each) => h("span", { "data-state": each })));
  const numbers = h("div.queue-numbers", null, [...OPEN, ...ENDED].map((each) => h("a", { href: href("tasks", "", { queue: name, state: each }), "data-state": each }, h("b"), each)));
  const reason = h("p.why");
  const head = h("p.queue-head");
  const settings = h("span.quiet");
  const depthChart = timeChart({ kind: "lines", whole: true, height: 110, label: `How many waited in the last ${HOURS} hours`, format: count });
  const ageChart = timeChart({ kind: "lines", times: true, height: 110, label: `How long the oldest had waited in the last ${HOURS} hours`, format: duration });
  const before = h("div.queue-past", { hidden: true }, depthChart.node, ageChart.node);
  let queue = /** @type {any} */ (null);
  const act = (/** @type {string} */ verb, /** @type {string} */ label, /** @type {string} */ sentence) => ask({
    heading: `${label} queue ${clean(name, 40)}?`, sentence, button: label, act: async () => {
      await post(`${path}/${verb}`);
      toast(`Queue ${clean(name, 40)}: ${verb}d`);
      again();
    } });
  const pausing = h("button.button.small", { type: "button", onclick: () => queue.paused
    ? act("resume", "Resume", "Its tasks may be taken again.") : act("pause", "Pause", "No more of its tasks are taken; what runs, runs on.") });
  const limiting = h("button.button.small", { type: "button", onclick: () => ask({
    heading: `Limit queue ${clean(name, 40)}`, button: "Set", sentence: "How many of its tasks may run at once, on all nodes together.",
    fields: [{ name: "limit", label: "At once", value: queue.limit === null ? "" : String(queue.limit), placeholder: "any number" }],
    act: async ({ limit }) => {
      await patch(path, { limit: limit ? Number(limit) : null });
      again();
    } }) }, icon("set"), "Limit");
  const dropping = h("button.icon-button", { type: "button", "aria-label": `Delete queue ${clean(name, 40)}`, title: "Delete", onclick: () => ask({
    heading: `Delete queue ${clean(name, 40)}?`, button: "Delete", danger: true, sentence: "With all its tasks, their results and logs. Tasks that have not ended must be cancelled first.",
    act: async (_, progress) => {
      for (let left = 1; left;) {
        left = (await remove(path)).left;
        if (left) progress(`${count(left)} are left …`);
      }
      again();
    } }) }, icon("delete"));
  const node = h("section.card.queue", { "aria-label": `Queue ${clean(name, 40)}`, "data-row": true },
    h("div.queue-top", null, h("h3", null, h("a", { href: href("tasks", "", { queue: name }) }, clean(name, 60))), state, h("span.grow"),
      mayOperate() ? h("div.buttons", null, pausing, limiting, dropping) : null),
    h("div.queue-middle", null, h("div", null, h("div.tile-label", null, "Waiting"), depth, oldest), h("div.queue-why", null, reason, head, settings)),
    stack, numbers, before);
  /** @type {any} */
  let drawn = null;
  return { node, update: (/** @type {any} */ item) => {
    queue = item;
    const waiting = item.counts.pending;
    state.hidden = !item.paused;
    setBadge(state, "paused");
    text(depth, count(waiting));
    setTime(oldest, item.oldest, item.oldest ? `oldest for ${duration(age(item.oldest))}` : "");
    text(reason, item.why[1]);
    attribute(reason, "data-mood", item.why[0] || null);
    text(head, item.head ? `Next: ${nameOf(item.head, 50)} (${clean(item.head.id, 30)}), submitted ${duration(age(item.head.created))} ago` : "");
    text(settings, `${many(item.workers, "worker")} · ${item.limit === null ? "no limit" : `limit ${count(item.limit)} at once`}`);
    if (pausing.dataset.paused !== String(item.paused)) {
      pausing.dataset.paused = String(item.paused);
      fill(pausing, icon(item.paused ? "resume" : "pause"), item.paused ? "Resume" : "Pause");
    }
    if (item.past && item.past !== drawn) {
      drawn = item.past;
      before.hidden = false;
      const points = item.past.of(name);
      const values = (/** @type {string} */ field) => points.map((/** @type {any} */ point) => (point === undefined ? null : point?.[field] ?? 0));
      depthChart.update({ times: item.past.times, series: [{ name: "waiting", colour: "pending", values: values("depth") }, { name: "running", colour: "started", values: values("running") }] });
      ageChart.update({ times: item.past.times, series: [{ name: "age of the oldest", colour: "age", values: values("age") }] });
    }
    const sum = OPEN.reduce((total, each) => total + item.counts[each], 0);
    attribute(stack, "aria-label", OPEN.map((each) => `${item.counts[each]} ${each}`).join(", "));
    OPEN.forEach((each, index) => style(/** @type {HTMLElement} */ (stack.children[index]), "flex-grow", String(sum ? item.counts[each] : 0)));
    [...OPEN, ...ENDED].forEach((each, index) => {
      text(/** @type {Element} */ (numbers.children[index].firstElementChild), count(item.counts[each]));
      attribute(numbers.children[index], "data-none", !item.counts[each]);
    });
  } };
}
