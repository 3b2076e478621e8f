// What runs now, what is at risk first.

import { get, post, taskPath } from "../api.js";
import { timeChart } from "../charts.js";
import { COMMANDS } from "../commands.js";
import { fill, h, keyed, text } from "../dom.js";
import { age, clean, count, duration, many, now, seconds } from "../format.js";
import { countByStep, recall, recentEvents } from "../recent-events.js";
import { leftOut } from "../health.js";
import { midnight, minutes } from "../history.js";
import { everySecond, live } from "../live.js";
import { badge, card, empty, taskLink, tile, when } from "../widgets.js";
import { href } from "../router.js";
import { judge, unsaved } from "../risk.js";
import { runningRow, seed } from "../running.js";
import { on } from "../stream.js";
import { learn } from "../typical.js";

export const title = "Now";

const ROWS = 100;
/** Of so many rows the usage so far is asked for; of others it is what comes while somebody looks. */
const RECALLED = 6;
const HOURS = 6;
const FEED = ["started", "complete", "failed", "cancelled", "interrupted", "lost"];

/** @param {HTMLElement} main @param {import("../router.js").Place} _place @param {AbortSignal} signal */
export function open(main, _place, signal) {
  const view = frame(main);
  /** @type {any[]} */
  let tasks = [];
  /** @type {any} */
  let state = { workers: [], queues: [], stats: null, isPart: false };
  /** @type {string[]} */
  let order = [];

  let drawn = 0;
  const draw = () => {
    drawn = Date.now();
    const judged = new Map(tasks.map((task) => [task.id, judge(task, state.workers)]));
    order = ordered(tasks, judged, order, view.list.matches(":hover, :focus-within"));
    const byId = new Map(tasks.map((task) => [task.id, task]));
    keyed(view.list, order.slice(0, ROWS).map((id) => ({ task: byId.get(id), risk: judged.get(id) })),
      ({ task }) => task.id, () => runningRow());
    view.more.hidden = tasks.length <= ROWS;
    text(view.more, `${many(tasks.length - ROWS, "more task")}: see them all`);
    view.none.hidden = tasks.length > 0 || !state.stats || state.isPart;
    view.table.hidden = !tasks.length;
    if (state.stats) tiles(view, state, tasks, failedToday());
    alerts(view.alerts, state);
  };

  let isHistoryRead = false;
  const known = live(signal, async (stop) => {
    const [page, stats, workers, queues] = await Promise.all([
      get("v1/tasks", { state: ["started", "reserved"], limit: 1000, brief: true, partial: true }, { signal: stop }),
      get("v1/stats", { partial: true }, { signal: stop }),
      get("v1/workers", { partial: true }, { signal: stop }),
      get("v1/queues", { partial: true }, { signal: stop }),
    ]);
    tasks = page.tasks;
    const away = leftOut(page, stats, workers, queues);
    state = { stats, workers: workers.workers, queues: queues.queues, isPart: Object.keys(away).length > 0 };
    draw();
    attend(tasks);
    if (!isHistoryRead) return away; // the chart comes first, what is good to know after it
    const again = (/** @type {boolean} */ learned) => learned && !stop.aborted && draw();
    learn(tasks, stop).then(again, () => {});
    recallUsage(order.slice(0, RECALLED), tasks, stop).then(again, () => {});
    return away;
  }, { interval: 2, matters: (event) => ["started", "reserved", "complete", "failed", "cancelled", "pending", "paused", "resumed"].includes(event.event) });

  /** @type {Map<number, any>} */
  let past = new Map();
  let failedBefore = 0;
  const failedToday = () => failedBefore + recentEvents().filter((event) => event.event === "failed" && event.time >= midnight() && !past.has(Math.floor(event.time / 60) * 60)).length;
  const drawHistory = () => {
    const { times, values } = countByStep(["complete", "failed", "cancelled"], HOURS * 3600, 72, past);
    view.chart.update({ times, series: [
      { name: "complete", colour: "complete", values: values.get("complete") ?? [] },
      { name: "failed", colour: "failed", values: values.get("failed") ?? [] },
      { name: "cancelled", colour: "cancelled", values: values.get("cancelled") ?? [] },
    ] });
    feed(view.feed);
  };
  let changed = false;
  on("event", () => (changed = true), signal);
  minutes(signal, HOURS, (found, failed) => {
    const first = !isHistoryRead;
    isHistoryRead = true;
    if (first) known.refresh();
    past = found;
    failedBefore = failed;
    drawHistory();
  });
  recall(drawHistory, signal);
  drawHistory();
  everySecond(signal, () => {
    if (Date.now() - drawn > 700) draw();
    if (changed) drawHistory();
    changed = false;
    for (const element of view.feed.querySelectorAll("time")) text(element, `${duration(age(element.getAttribute("datetime")))} ago`);
  });
}

/** @param {HTMLElement} main */
function frame(main) {
  const named = {
    running: tile("Running"), pending: tile("Waiting"), risk: tile("Unsaved work"), failed: tile("Failed today"), workers: tile("Workers"),
  };
  const alerts = h("div.alerts", { role: "region", "aria-label": "Alerts", "aria-live": "polite" });
  const list = h("tbody", { "data-list": true });
  const table = h("table.running", null,
    h("thead", null, h("tr", null, ["Task", "Progress", "Remaining", "Elapsed", "Last report", "Unsaved", "Usage", "Node"]
      .map((each) => h("th", { scope: "col" }, each)))), list);
  table.hidden = true;
  const more = h("a.more", { href: href("tasks", "", { state: "started" }) });
  const none = empty("Nothing is running", "Start a worker, then submit a task. It appears here by itself.", COMMANDS.worker, COMMANDS.runWithProgress);
  none.hidden = true;
  const chart = timeChart({ kind: "bars", whole: true, height: 190, label: `Tasks that ended in the last ${HOURS} hours`, format: count });
  const feed = h("ol.feed");
  fill(main, h("h1.unseen", null, "Now"),
    h("div.tiles", null, Object.values(named).map((each) => each.node)), alerts,
    h("div.split", null,
      card("Running, what is at risk first", none, table, more),
      h("div.column", null, card(`Ended in the last ${HOURS} hours`, chart.node), card("Just happened", feed))));
  return { ...named, alerts, list, table, more, none, chart, feed };
}

/**
 * What is in danger comes first; within that, what has the most to lose. Rows do not change places
 * under the pointer, nor for small differences.
 * @param {any[]} tasks @param {Map<string, import("../risk.js").Risk>} judged @param {string[]} before @param {boolean} still
 */
function ordered(tasks, judged, before, still) {
  const ids = new Set(tasks.map((task) => task.id));
  const level = (/** @type {string} */ id) => judged.get(id)?.level ?? 0;
  if (still) {
    const kept = before.filter((id) => ids.has(id));
    const there = new Set(kept);
    return [...kept, ...[...ids].filter((id) => !there.has(id))];
  }
  const place = new Map(before.map((id, index) => [id, index]));
  const lose = (/** @type {string} */ id) => Math.log2(60 + (judged.get(id)?.loses ?? 0)) | 0;
  return [...ids].sort((a, b) => level(b) - level(a) || lose(b) - lose(a) || (place.get(a) ?? 1e9) - (place.get(b) ?? 1e9));
}

/** @param {ReturnType<typeof frame>} view @param {any} state @param {any[]} tasks @param {number} failed today */
function tiles(view, state, tasks, failed) {
  const { stats } = state;
  const started = stats.tasks.started + stats.tasks.reserved;
  view.running.update(started, `of ${many(stats.slots, "slot")}`, href("tasks", "", { state: "started" }), "running");
  const later = [stats.tasks.scheduled ? `${count(stats.tasks.scheduled)} scheduled` : "", stats.tasks.waiting ? `${count(stats.tasks.waiting)} after other tasks` : ""];
  view.pending.update(stats.tasks.pending, [stats.oldest ? `oldest for ${duration(age(stats.oldest))}` : "", ...later].filter(Boolean).join(" · ") || "none is late", href("tasks", "", { state: "pending" }), "pending");
  const perNode = new Map();
  let sum = 0;
  for (const task of tasks) {
    const lost = unsaved(task) ?? 0;
    sum += lost;
    perNode.set(task.node, (perNode.get(task.node) ?? 0) + lost);
  }
  const [worst] = [...perNode].sort((a, b) => b[1] - a[1]);
  view.risk.update(duration(sum), worst && sum ? `most on ${clean(worst[0] ?? "?", 24)}: ${duration(worst[1])}` : "nothing to lose", href("nodes"), sum > 3600 ? "warn" : undefined);
  view.failed.update(count(failed), `${count(stats.tasks.failed)} in the store`, href("failures"), failed ? "failed" : undefined);
  const stale = stats.workers.STALE;
  const alive = stats.workers.IDLE + stats.workers.PROCESSING + stats.workers.DRAINING;
  view.workers.update(alive, stale ? `${count(stale)} stale` : alive ? "all alive" : "none: start one", href("nodes"), alive ? "complete" : "failed", stale ? "failed" : undefined);
}

/** @param {Element} place @param {any} state */
function alerts(place, state) {
  const found = [];
  for (const worker of state.workers.filter((/** @type {any} */ each) => each.state === "STALE")) {
    found.push({ key: worker.id, mood: "bad", address: href("nodes"), said: `Worker on ${clean(worker.node, 40)} has been silent for ${duration(age(worker.beat_at))}${worker.running ? ` and holds ${many(worker.running, "task")}` : ""}.` });
  }
  for (const queue of state.queues) {
    const waits = queue.counts.pending;
    if (!waits) continue;
    if (queue.paused) found.push({ key: `p ${queue.name}`, mood: "warn", address: href("queues"), said: `Queue ${clean(queue.name, 40)} is paused while ${many(waits, "task")} wait${waits === 1 ? "s" : ""}.` });
    else if (!queue.workers && queue.oldest) found.push({ key: `w ${queue.name}`, mood: "warn", address: href("queues"), said: `No worker listens to queue ${clean(queue.name, 40)}, where ${many(waits, "task")} wait${waits === 1 ? "s" : ""}.` });
  }
  keyed(place, found.slice(0, 8), (alert) => alert.key, () => {
    const node = h("a.alert");
    return { node, update: (alert) => {
      node.dataset.mood = alert.mood;
      node.setAttribute("href", alert.address);
      text(node, alert.said);
    } };
  });
}

/** @param {Element} place */
function feed(place) {
  const newest = recentEvents().filter((event) => event.id && FEED.includes(event.event)).slice(-12).reverse();
  keyed(place, newest, (event) => String(event.number), (event) => ({
    node: h("li", null, badge(event.event), taskLink(event.id), h("span.quiet", null, clean(event.queue, 20)), when(event.at)),
  }));
  if (!newest.length) place.replaceChildren();
}

let attended = 0;

/** Let the workers tell news every second: somebody looks. @param {any[]} tasks */
function attend(tasks) {
  if (Date.now() - attended < 8000) return;
  attended = Date.now();
  const workers = [...new Set(tasks.map((task) => task.worker).filter(Boolean))].slice(0, 200);
  if (workers.length) post("v1/workers/attend", { workers, seconds: 12 }).catch(() => {});
}

/** Which tasks' past use was asked for. @type {Set<string>} */
const seeded = new Set();

/** What each of these tasks used before the page was opened: asked once, a few at a time. @param {string[]} ids @param {any[]} tasks @param {AbortSignal} signal */
async function recallUsage(ids, tasks, signal) {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const asked = ids.map((id) => byId.get(id)).filter((task) => task?.usage && !seeded.has(`${task.id} ${task.attempt}`));
  for (let at = 0; at < asked.length; at += 4) {
    await Promise.all(asked.slice(at, at + 4).map(async (task) => {
      seeded.add(`${task.id} ${task.attempt}`);
      seed(task, (await get(taskPath(task.id, "usage"), {}, { signal })).usage);
    }));
  }
  return asked.length > 0;
}
