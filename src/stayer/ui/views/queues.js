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

/** What can be limited, as it is. @param {any} queue @returns {import("../ask.js").Field[]} */
function limitFields(queue) {
  const shown = (/** @type {number | null} */ limit) => (limit === null ? "" : String(limit));
  return [
    { name: "limit", label: "At once", value: shown(queue.limit), placeholder: "any number" },
    { name: "key_limit", label: "At once of each key", value: shown(queue.key_limit), placeholder: "any number" },
    { name: "key_limits", label: "Of single keys", value: Object.entries(queue.key_limits).map(([key, limit]) => `${key}=${limit}`).join(", "), placeholder: "ann=5, bob=2" },
    { name: "rate", label: "Starts in a time", value: queue.rate ?? "", placeholder: "any number, or 100/1h" },
    { name: "fair", label: "Who takes turns", value: queue.fair ?? "nobody", options: ["nobody", "owner", "key"] },
  ];
}

/** What the answers to these change. @param {any} queue @param {Record<string, string>} answers */
function limitChanges(queue, answers) {
  const number = (/** @type {string} */ written) => (written ? Number(written) : null);
  /** @type {Record<string, number | null>} */
  const single = Object.fromEntries(Object.keys(queue.key_limits).map((key) => [key, null]));
  for (const each of answers.key_limits.split(",").map((part) => part.trim()).filter(Boolean)) {
    const at = each.lastIndexOf("=");
    if (at < 1 || !/^\d+$/.test(each.slice(at + 1).trim())) throw new Error(`Of single keys: ${each} is not written KEY=number`);
    single[each.slice(0, at).trim()] = Number(each.slice(at + 1));
  }
  return {
    limit: number(answers.limit), key_limit: number(answers.key_limit), key_limits: single,
    rate: answers.rate || null, fair: answers.fair === "nobody" ? null : answers.fair,
  };
}

/** `limit 4 at once · key 2 · ann 5 · 100/1h · owners take turns`. @param {any} queue */
function limitsOf(queue) {
  return [
    queue.limit === null ? "no limit" : `limit ${count(queue.limit)} at once`,
    queue.key_limit === null ? "" : `${count(queue.key_limit)} of each key`,
    ...Object.entries(queue.key_limits).map(([key, limit]) => `${limit} of ${clean(key, 30)}`),
    queue.rate ?? "", queue.fair ? `${queue.fair}s take turns` : "",
    queue.notify.length ? `tells ${clean(queue.notify.join(", "), 120)}` : "",
  ].filter(Boolean).join(" · ");
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
    heading: `Limit queue ${clean(name, 40)}`, button: "Set", sentence: "How much of it may run, on all nodes together.", fields: limitFields(queue),
    act: async (answers) => {
      await patch(path, limitChanges(queue, answers));
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
    text(settings, `${many(item.workers, "worker")} · ${limitsOf(item)}`);
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
