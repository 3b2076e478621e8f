// Nodes and their workers: alive or not, how full, what would be lost with them; and those that were lost.

import { get, mayOperate, patch, post, remove } from "../api.js";
import { ask } from "../dialogs.js";
import { COMMANDS } from "../commands.js";
import { attribute, fill, h, keyed, style, text } from "../dom.js";
import { age, clean, count, duration, many, title as nameOf } from "../format.js";
import { leftOut } from "../health.js";
import { icon } from "../icons.js";
import { everySecond, live } from "../live.js";
import { badge, empty, setBadge, setTime, toast } from "../widgets.js";
import { href } from "../router.js";
import { unsaved } from "../risk.js";

export const title = "Nodes";

/** @param {HTMLElement} main @param {import("../router.js").Place} _place @param {AbortSignal} signal */
export function open(main, _place, signal) {
  const list = h("div.nodes", { "data-list": true });
  const none = h("div");
  const lost = h("div.nodes", { "data-list": true });
  const down = h("section.down", { hidden: true, "aria-labelledby": "down" },
    h("h2", { id: "down" }, "Down"), h("p.quiet", null, "Workers declared lost in the last day."), lost);
  fill(main, h("h1", null, "Nodes"), list, none, down);
  /** @type {any[]} */
  let workers = [];
  /** @type {any[]} */
  let running = [];
  /** @type {any[]} */
  let gone = [];
  const drawDown = () => keyed(lost, gone, (worker) => worker.id, (worker) => lostCard(worker));
  const draw = () => keyed(list, workers.map((worker) => ({ worker, tasks: running.filter((task) => task.worker === worker.id) })),
    ({ worker }) => worker.id, ({ worker }) => workerCard(worker.id, () => known.refresh()));
  const known = live(signal, async (stop) => {
    const [found, page] = await Promise.all([get("v1/workers", { partial: true }, { signal: stop }),
      get("v1/tasks", { state: ["started", "reserved"], limit: 1000, brief: true, partial: true }, { signal: stop })]);
    workers = found.workers.sort((/** @type {any} */ a, /** @type {any} */ b) => Number(b.state === "STALE") - Number(a.state === "STALE") || a.node.localeCompare(b.node) || a.id.localeCompare(b.id));
    running = page.tasks;
    gone = found.down ?? [];
    down.hidden = !gone.length;
    draw();
    drawDown();
    fill(none, workers.length ? null : empty("No workers", "A worker takes tasks and runs them; it appears here with its first heartbeat.", COMMANDS.worker));
    return leftOut(found, page);
  }, { interval: 3, matters: () => true });
  everySecond(signal, () => { draw(); drawDown(); });
}

/** @param {any} worker One that was declared lost: nothing of it changes but how long ago that was. */
function lostCard(worker) {
  const since = h("time");
  const others = worker.running - worker.tasks.length;
  const facts = [["Why", clean(worker.why, 200)], ["Version", clean(worker.version, 30)], ["Worker", clean(worker.id, 80)]].filter(([, said]) => said);
  const node = h("section.card.worker", { "data-row": true, "aria-label": `Lost worker on ${clean(worker.node, 40)}, pid ${worker.pid}` },
    h("div.queue-top", null, h("h3", null, clean(worker.node, 40)), badge(worker.state)), h("p.quiet", null, `pid ${worker.pid}`),
    h("div.beat", null, h("span.quiet", null, "Down since"), since),
    h("p.quiet", null, worker.running ? `It ran ${many(worker.running, "task")}:` : "It ran nothing."),
    h("ol.worker-tasks", null, worker.tasks.map((/** @type {string} */ id) => h("li", null, h("a.id", { href: href("task", id) }, clean(id, 40)))),
      worker.tasks.length && others > 0 ? h("li.quiet", null, `and ${count(others)} more`) : null),
    h("dl.facts", null, facts.map(([label, said]) => [h("dt", null, label), h("dd", null, said)]).flat()));
  return { node, update: () => setTime(since, worker.beat_at, `${duration(age(worker.beat_at) ?? 0)} ago`) };
}

/** What an operator wants of it that it does not do yet. @param {any} worker */
function told(worker) {
  const order = worker.order;
  if (!order) return "";
  if (typeof order.grace === "number") return "stop its tasks, and exit";
  return [order.queues && String(order.queues) !== String(worker.queues) ? `take tasks from ${clean(order.queues.join(", "), 120)}` : "",
    order.slots && order.slots !== worker.slots ? `run ${count(order.slots)} at once` : ""].filter(Boolean).join(", ");
}

/** @param {string} id @param {() => void} again */
function workerCard(id, again) {
  const name = h("h3");
  const process = h("p.quiet");
  const state = badge("IDLE");
  const beat = h("time");
  const meter = h("div.meter-value");
  const slots = h("div.slots", { role: "img" });
  const figures = h("dl.facts");
  const tasks = h("ol.worker-tasks");
  /** @type {any} */
  let worker = null;
  const drop = h("button.button.small.danger", { type: "button", hidden: true, onclick: () => ask({
    heading: `Give up the worker on ${clean(worker.node, 40)}?`, button: "Give it up", danger: true,
    sentence: "Do this only if its machine is gone for good: its tasks go back to their queues and run again elsewhere.",
    act: async () => {
      const { returned } = await remove(`v1/workers/${encodeURIComponent(id)}`);
      toast(`Given up; tasks returned: ${Array.isArray(returned) ? returned.length : returned}`);
      again();
    } }) }, icon("drop"), "Give up");
  const drain = h("button.button.small", { type: "button", hidden: true, onclick: () => ask({
    heading: `Drain the worker on ${clean(worker.node, 40)}?`, button: "Drain",
    sentence: "It finishes its running tasks, takes no more, and exits. To use it again, start it on its machine.",
    act: async () => {
      await post(`v1/workers/${encodeURIComponent(id)}/drain`);
      toast(`The worker on ${clean(worker.node, 40)} takes no more tasks.`);
      again();
    } }) }, icon("pause"), "Drain");
  const change = h("button.button.small", { type: "button", hidden: true, onclick: () => ask({
    heading: `Change the worker on ${clean(worker.node, 40)}`, button: "Change",
    sentence: "Running tasks go on. This overrides the worker's options and settings until it exits.",
    fields: [
      { name: "queues", label: "Queues", value: (worker.order?.queues ?? worker.queues).join(", "), required: true, hint: "The queues it takes tasks from, in this order, separated by commas." },
      { name: "slots", label: "Slots", value: String(worker.order?.slots ?? worker.slots), required: true, hint: "How many tasks it runs at once." }],
    act: async (answers) => {
      if (!/^[1-9]\d{0,8}$/.test(answers.slots)) throw new Error(`Slots: ${answers.slots} is not a number of tasks`);
      await patch(`v1/workers/${encodeURIComponent(id)}`, { queues: answers.queues.split(",").map((each) => each.trim()).filter(Boolean), slots: Number(answers.slots) });
      toast(`The worker on ${clean(worker.node, 40)} was told.`);
      again();
    } }) }, icon("edit"), "Change");
  const stop = h("button.button.small.danger", { type: "button", hidden: true, onclick: () => ask({
    heading: `Stop the worker on ${clean(worker.node, 40)}?`, button: "Stop it", danger: true,
    sentence: "It stops its tasks within 30 seconds, puts them back into their queues, and exits. If it does not answer, other workers get the tasks when its lease ends.",
    act: async () => {
      await post(`v1/workers/${encodeURIComponent(id)}/stop`);
      toast(`The worker on ${clean(worker.node, 40)} was told to stop.`);
      again();
    } }) }, icon("drop"), "Stop");
  const node = h("section.card.worker", { "data-row": true },
    h("div.queue-top", null, name, state), process,
    h("div.beat", null, h("span.quiet", null, "Last heartbeat"), beat, h("div.meter", { "aria-hidden": "true" }, meter)), slots, tasks, figures,
    mayOperate() ? h("div.buttons", null, change, drain, stop, drop) : null);
  return { node, update: (/** @type {{worker: any, tasks: any[]}} */ item) => {
    worker = item.worker;
    const silent = age(worker.beat_at) ?? 0;
    text(name, clean(worker.node, 40));
    text(process, `pid ${worker.pid}${worker.started_at ? ` · up ${duration(age(worker.started_at))}` : ""}`);
    attribute(node, "aria-label", `Worker on ${clean(worker.node, 40)}, pid ${worker.pid}`);
    setBadge(state, worker.state);
    drop.hidden = worker.state !== "STALE";
    drain.hidden = worker.draining || worker.state === "STALE";
    const stops = typeof worker.order?.grace === "number";
    stop.hidden = stops || worker.state === "STALE";
    change.hidden = stops || worker.draining || worker.state === "STALE";
    setTime(beat, worker.beat_at, `${duration(silent)} ago, lease ${duration(worker.lease)}`);
    const part = Math.min(1, silent / Math.max(1, worker.lease));
    style(meter, "transform", `scaleX(${(1 - part).toFixed(3)})`);
    attribute(meter, "data-mood", part >= 1 ? "bad" : part > 0.5 ? "warn" : "complete");
    const dots = Math.min(64, Math.max(worker.slots, worker.running));
    if (slots.childElementCount !== dots) fill(slots, Array.from({ length: dots }, () => h("i")));
    [...slots.children].forEach((dot, index) => attribute(dot, "data-full", index < worker.running));
    attribute(slots, "aria-label", `${worker.running} of ${worker.slots} slots in use`);
    keyed(tasks, item.tasks.slice(0, 12), (task) => task.id, (task) => {
      const lost = h("span.quiet");
      return { node: h("li", null, h("a", { href: href("task", task.id) }, nameOf(task, 40)), h("span.under.id", null, clean(task.id, 24)), lost),
        update: (now) => text(lost, `unsaved ${duration(unsaved(now))}`) };
    });
    const mark = `${worker.slots} ${worker.running} ${worker.version} ${worker.queues} ${worker.order?.number}`;
    if (figures.dataset.mark === mark) return;
    figures.dataset.mark = mark;
    fill(figures, [["Slots", `${count(worker.running)} of ${count(worker.slots)} in use`],
      ["Queues", worker.queues.length ? clean(worker.queues.join(", "), 120) : "all"], ...(told(worker) ? [["Notifies", told(worker)]] : []), ["Version", clean(worker.version, 30)],
      ["Worker", clean(id, 80)]].map(([label, said]) => [h("dt", null, label), h("dd", null, said)]).flat());
  } };
}
