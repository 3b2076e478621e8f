// Queues: how deep, how old, what holds them up.

import { get, mayOperate, patch, post, remove } from "../api.js";
import { ask } from "../dialogs.js";
import { timeChart } from "../charts.js";
import { COMMANDS } from "../commands.js";
import { attribute, fill, h, keyed, text } from "../dom.js";
import { age, clean, clock, count, duration, lengthOf, many, now, spelled, title as nameOf } from "../format.js";
import { leftOut } from "../health.js";
import { icon } from "../icons.js";
import { depths } from "../history.js";
import { everySecond, live } from "../live.js";
import { badge, empty, say, setBadge, setTime, stackBar, toast } from "../widgets.js";
import { href } from "../router.js";
import { explainer, why } from "../why-waiting.js";

export const title = "Queues";

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
  /** What the server says of the next task of a queue, by that task. @type {Map<string, ReturnType<typeof explainer>>} */
  const explainers = new Map();

  const draw = () => keyed(list, queues.map((queue) => ({ ...queue, past })), (queue) => queue.name, (queue) => queueCard(queue.name, () => known.refresh()));
  const known = live(signal, async (stop) => {
    const [found, who] = await Promise.all([get("v1/queues", { partial: true }, { signal: stop }), get("v1/workers", { partial: true }, { signal: stop })]);
    workers = who.workers;
    await Promise.all(found.queues.filter((/** @type {any} */ queue) => queue.counts.pending).slice(0, 20).map(async (/** @type {any} */ queue) => {
      const page = await get(`v1/queues/${encodeURIComponent(queue.name)}/peek`, { limit: 1 }, { signal: stop });
      heads.set(queue.name, page.tasks[0] ?? null);
    }));
    queues = (await Promise.all(found.queues.map(async (/** @type {any} */ queue) => {
      const head = queue.counts.pending ? heads.get(queue.name) : undefined;
      return { ...queue, head, why: why(queue, workers) ?? await explained(head, stop) };
    }))).sort((/** @type {any} */ a, /** @type {any} */ b) => a.name.localeCompare(b.name));
    draw();
    const away = leftOut(found, who);
    fill(none, queues.length || Object.keys(away).length ? null : empty("No queues yet", "A queue is made by its first task.", COMMANDS.add));
    return away;
  }, { interval: 3, matters: () => true });

  /** Of a task that could be taken, so far as its queue goes. @param {any} head @param {AbortSignal} stop @returns {Promise<[string, string]>} */
  async function explained(head, stop) {
    if (!head) return ["", "It is about to be taken."];
    if (explainers.size > 200) explainers.clear();
    if (!explainers.has(head.id)) explainers.set(head.id, explainer(head.id));
    const found = await explainers.get(head.id)?.(head, stop).catch(() => null); // it may be gone meanwhile
    const said = found?.state === "pending" ? clean(found.reasons[0]?.text, 300) : "";
    return ["", said ? `${said[0].toUpperCase()}${said.slice(1)}.` : "It is about to be taken."];
  }

  depths(signal, (times, of) => {
    past = { times, of };
    draw();
  });
  everySecond(signal, draw);
}

const FAIR = { "": "none: oldest first", owner: "between owners", key: "between keys" };
/** What is kept after the end of a task, by its name in the API. */
const KEPT = { complete: "Complete tasks", failed: "Failed tasks", cancelled: "Cancelled tasks", log: "Logs", result: "Results" };

/** What can be limited, as it is. @param {any} queue @returns {import("../dialogs.js").Field[]} */
function limitFields(queue) {
  const shown = (/** @type {number | null} */ limit) => (limit === null ? "" : String(limit));
  return [
    { name: "limit", label: "Running at once, at most", value: shown(queue.limit), placeholder: "no limit" },
    { name: "key_limit", label: "Running at once with the same key, at most", value: shown(queue.key_limit), placeholder: "no limit", hint: "Tasks can be submitted with a key: a customer, a website, a license." },
    { name: "key_limits", label: "Other limits for single keys", value: Object.entries(queue.key_limits).map(([key, limit]) => `${key}=${limit}`).join(", "), placeholder: "ann=5, bob=2" },
    { name: "rate", label: "Rate of starts, at most", value: queue.rate ?? "", placeholder: "no limit, or 100/1h" },
    { name: "fair", label: "Fair shares", value: FAIR[/** @type {"owner"} */ (queue.fair ?? "")], options: Object.values(FAIR), hint: "Who has used least lately goes first." },
    { name: "notify", label: "Notify", value: queue.notify.join(", "), placeholder: "nobody, or failed:mail, https://…", hint: "For every task that ends in this queue." },
    { name: "defaults", label: "Defaults of its tasks", rows: 2, value: Object.entries(queue.defaults).map(([name, value]) => `${name}=${written(value)}`).join("\n"), placeholder: "retries=3, time_limit=2h: one a line", hint: "For tasks that are submitted without these fields." },
    ...Object.entries(KEPT).map(([name, label]) => ({ name, label, group: "How long ended tasks are kept", value: queue.retention[name] === undefined ? "" : spelled(queue.retention[name]), placeholder: "as the workers are set" })),
  ];
}

/** A default as it is written in a line. @param {any} value */
const written = (value) => (Array.isArray(value) ? value.join(",") : typeof value === "object" ? JSON.stringify(value) : String(value));
const DEFAULT_LISTS = ["retry_on", "give_up_on"];

/** What the lines change. @param {any} queue @param {string} lines */
function defaultChanges(queue, lines) {
  /** @type {Record<string, any>} */
  const changes = Object.fromEntries(Object.keys(queue.defaults).map((name) => [name, null]));
  for (const line of lines.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`Defaults of its tasks: ${line} is not written FIELD=value`);
    const [name, value] = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    const plain = /^[\d.]+$|^[{[]/.test(value) ? JSON.parse(value) : value;
    changes[name] = DEFAULT_LISTS.includes(name) ? value.split(",").map((each) => each.trim()).filter(Boolean) : plain;
  }
  return changes;
}

/** What the answers to these change. @param {any} queue @param {Record<string, string>} answers */
function limitChanges(queue, answers) {
  const number = (/** @type {string} */ written) => (written ? Number(written) : null);
  /** @type {Record<string, number | null>} */
  const single = Object.fromEntries(Object.keys(queue.key_limits).map((key) => [key, null]));
  for (const each of answers.key_limits.split(",").map((part) => part.trim()).filter(Boolean)) {
    const at = each.lastIndexOf("=");
    if (at < 1 || !/^\d+$/.test(each.slice(at + 1).trim())) throw new Error(`Other limits for single keys: ${each} is not written KEY=number`);
    single[each.slice(0, at).trim()] = Number(each.slice(at + 1));
  }
  return {
    limit: number(answers.limit), key_limit: number(answers.key_limit), key_limits: single,
    rate: answers.rate || null, fair: Object.entries(FAIR).find(([, said]) => said === answers.fair)?.[0] || null,
    defaults: defaultChanges(queue, answers.defaults),
    notify: answers.notify.split(",").map((each) => each.trim()).filter(Boolean),
    retention: Object.fromEntries(Object.entries(KEPT).map(([name, label]) => {
      const length = answers[name] ? lengthOf(answers[name]) : null;
      if (answers[name] && length === null) throw new Error(`${label}: ${answers[name]} is not a time, such as 30d or 12h`);
      return [name, length];
    })),
  };
}

/** `limit 4 at once · key 2 · ann 5 · 100/1h · owners take turns`. @param {any} queue */
function limitsOf(queue) {
  return [
    queue.limit === null ? "no limit" : `at most ${count(queue.limit)} at once`,
    queue.key_limit === null ? "" : `at most ${count(queue.key_limit)} with the same key`,
    ...Object.entries(queue.key_limits).map(([key, limit]) => `at most ${limit} with key ${clean(key, 30)}`),
    queue.rate ? `at most ${queue.rate} start` : "", queue.fair ? `fair shares between ${queue.fair}s` : "",
    Object.keys(queue.defaults).length ? `defaults ${clean(Object.entries(queue.defaults).map(([name, value]) => `${name}=${written(value)}`).join(", "), 200)}` : "",
    queue.notify.length ? `notifies ${clean(queue.notify.join(", "), 120)}` : "",
  ].filter(Boolean).join(" · ");
}

/** @param {string} name @param {() => void} again */
function queueCard(name, again) {
  const path = `v1/queues/${encodeURIComponent(name)}`;
  const state = badge("paused");
  const depth = h("div.figure");
  const oldest = h("div.under");
  const stack = stackBar(OPEN);
  const numbers = h("div.queue-numbers", null, [...OPEN, ...ENDED].map((each) => h("a", { href: href("tasks", "", { queue: name, state: each }), "data-state": each }, h("b"), each)));
  const reason = h("p.why");
  const head = h("p.queue-head");
  const settings = h("span.quiet");
  const depthChart = timeChart({ kind: "lines", whole: true, height: 110, label: "How many waited, and ran", format: count });
  const ageChart = timeChart({ kind: "lines", times: true, height: 110, label: "How long the oldest had waited", format: duration });
  const span = h("p.under");
  const before = h("div", { hidden: true }, h("div.queue-past", null, depthChart.node, ageChart.node), span);
  let queue = /** @type {any} */ (null);
  const act = (/** @type {string} */ verb, /** @type {string} */ label, /** @type {string} */ sentence) => ask({
    heading: `${label} queue ${clean(name, 40)}?`, sentence, button: label, act: async () => {
      await post(`${path}/${verb}`);
      toast(`Queue ${clean(name, 40)}: ${verb}d`);
      again();
    } });
  const pausing = h("button.button.small", { type: "button", onclick: () => queue.paused
    ? act("resume", "Resume", "Workers take its tasks again.") : act("pause", "Pause", "Workers take no more of its tasks. Running tasks go on.") });
  const limiting = h("button.button.small", { type: "button", onclick: () => ask({
    heading: `Settings of queue ${clean(name, 40)}`, button: "Save", wide: true, sentence: "They hold for all nodes together.", fields: limitFields(queue),
    act: async (answers) => {
      await patch(path, limitChanges(queue, answers));
      again();
    } }) }, icon("set"), "Settings");
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
    stack.node, numbers, before);
  let drawn = "";
  return { node, update: (/** @type {any} */ item) => {
    queue = item;
    const waiting = item.counts.pending;
    state.hidden = !item.paused;
    setBadge(state, "paused");
    text(depth, count(waiting));
    setTime(oldest, item.oldest, item.oldest ? `oldest for ${duration(age(item.oldest))}` : "");
    say(reason, item.why[1]);
    attribute(reason, "data-mood", item.why[0] || null);
    text(head, item.head ? `Next: ${nameOf(item.head, 50)} (${clean(item.head.id, 30)}), submitted ${duration(age(item.head.created))} ago` : "");
    text(settings, `${many(item.workers, "worker")} · ${limitsOf(item)}`);
    if (pausing.dataset.paused !== String(item.paused)) {
      pausing.dataset.paused = String(item.paused);
      fill(pausing, icon(item.paused ? "resume" : "pause"), item.paused ? "Resume" : "Pause");
    }
    const latest = { depth: waiting, running: item.counts.started + item.counts.reserved, age: age(item.oldest) ?? 0 };
    const mark = item.past && `${item.past.times[0]} ${item.past.times.at(-1)} ${latest.depth} ${latest.running}`;
    if (mark && mark !== drawn) {
      drawn = mark;
      before.hidden = false;
      // What is now comes last, also instead of a step that is being counted.
      const counted = item.past.of(name);
      const known = counted.length - (counted.at(-1) === undefined ? (counted.at(-2) === undefined ? 2 : 1) : 0);
      const points = [...counted.slice(0, known), latest];
      const times = [...item.past.times.slice(0, known), now()];
      const values = (/** @type {"depth" | "running" | "age"} */ field) => points.map((/** @type {any} */ point) => (point === undefined ? null : point?.[field] ?? 0));
      depthChart.update({ times, series: [{ name: "waiting", colour: "pending", values: values("depth") }, { name: "running", colour: "started", values: values("running") }] });
      ageChart.update({ times, series: [{ name: "age of the oldest", colour: "age", values: values("age") }] });
      text(span, `since ${clock(times[0])}`);
    }
    stack.update(item.counts);
    [...OPEN, ...ENDED].forEach((each, index) => {
      text(/** @type {Element} */ (numbers.children[index].firstElementChild), count(item.counts[each]));
      attribute(numbers.children[index], "data-none", !item.counts[each]);
    });
  } };
}
