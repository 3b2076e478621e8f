// A row of the list of running tasks.

import { sparkline } from "./charts.js";
import { attribute, h, text } from "./dom.js";
import { clean, clock, duration, fraction, now, percent, size, title } from "./format.js";
import { progressBar, setTime, standing } from "./widgets.js";
import { elapsed, remaining as expected, silence, unsaved } from "./risk.js";
import { href } from "./router.js";
import { typicalRun } from "./typical.js";

/** Points of usage gathered while the page is open, by task. @type {Map<string, {ran: number, cpu: number, rate: number[]}>} */
const gathered = new Map();

/** A row that can be updated. */
export function runningRow() {
  const link = h("a.task-title");
  const under = h("div.under");
  const chips = h("div.chips");
  const bar = progressBar();
  const figure = h("b.percent");
  const message = h("span.message");
  const remaining = h("div");
  const finish = h("div.under");
  const ran = h("div");
  const custom = h("div.under");
  const report = h("time");
  const lost = h("div");
  const lostUnder = h("div.under");
  const line = sparkline();
  const used = h("div.under");
  const node = h("div");
  const cell = (/** @type {string} */ label, /** @type {string} */ kind, /** @type {Node[]} */ ...parts) => h(`td.${kind}`, { "data-label": label }, parts);
  const row = h("tr", { "data-row": true },
    h("th.c-task", { scope: "row" }, link, under),
    cell("Progress", "c-progress", h("div.progress-line", null, figure, message), bar.node, chips),
    cell("Remaining", "c-number", remaining, finish),
    cell("Elapsed", "c-number", ran, custom),
    cell("Last report", "c-number", report),
    cell("Unsaved", "c-number", lost, lostUnder),
    cell("Usage", "c-usage", /** @type {any} */ (line.node), used),
    cell("Node", "c-node", node));

  return {
    node: row,
    /** @param {{task: any, risk: import("./risk.js").Risk}} item */
    update({ task, risk }) {
      attribute(row, "data-level", risk.level);
      attribute(link, "href", href("task", task.id));
      text(link, title(task, 200));
      attribute(link, "title", title(task, 1000));
      text(under, `${clean(task.id, 24)} · ${clean(task.queue, 24)}${task.attempt > 1 ? ` · attempt ${task.attempt}` : ""}`);
      const state = standing(task);
      const said = [...(state === "started" ? [] : [state]), ...risk.reasons];
      if (chips.textContent !== said.join("")) chips.replaceChildren(...said.map((each) => h("span.chip", null, each)));
      const part = fraction(task.progress);
      bar.update(task);
      text(figure, percent(part));
      text(message, clean(task.progress?.message ?? (part === null && !task.progress ? "no reports" : ""), 80));
      const left = expected(task);
      text(remaining, left === null ? "–" : left ? duration(left) : "soon");
      text(finish, left ? `≈ ${clock(now() + left)}` : "");
      setTime(ran, task.started_at, duration(elapsed(task)));
      const often = typicalRun(task);
      text(custom, often ? `usual ${duration(often.median)}` : "");
      setTime(report, task.progress?.at ?? null, silence(task) === null ? "–" : duration(silence(task)));
      attribute(report, "data-mood", risk.silent ? (risk.level > 1 ? "bad" : "warn") : null);
      text(lost, duration(unsaved(task)));
      text(lostUnder, task.checkpoint_at ? "since saved" : "never saved");
      usage(task, line, used);
      text(node, clean(task.node ?? "", 28));
      attribute(node, "title", clean(task.worker ?? "", 120));
    },
  };
}

/** Begin with what the store remembers of an attempt. @param {any} task @param {any[]} series */
export function seed(task, series) {
  const rate = series.slice(-41).map((point, at, all) => (at ? Math.max(0, (point.cpu - all[at - 1].cpu) / Math.max(0.001, point.ran - all[at - 1].ran)) : 0)).slice(1);
  const newest = series.at(-1);
  if (newest) gathered.set(`${task.id} ${task.attempt}`, { ran: newest.ran, cpu: newest.cpu, rate });
}

/** @param {any} task @param {ReturnType<typeof sparkline>} line @param {Element} used */
function usage(task, line, used) {
  const { usage: newest } = task;
  if (!newest) {
    text(used, "");
    return;
  }
  const key = `${task.id} ${task.attempt}`;
  let points = gathered.get(key);
  if (!points) gathered.set(key, (points = { ran: newest.ran, cpu: newest.cpu, rate: [] }));
  if (newest.ran > points.ran) {
    points.rate.push(Math.max(0, (newest.cpu - points.cpu) / (newest.ran - points.ran)));
    points.ran = newest.ran;
    points.cpu = newest.cpu;
    if (points.rate.length > 60) points.rate.shift();
  }
  line.update(points.rate, 1);
  const rate = points.rate.at(-1) ?? (newest.ran ? newest.cpu / newest.ran : 0);
  text(used, `${Math.round(rate * 100)}\u202f% · ${size(newest.rss)}`);
}
