// One flow: its graph and its tasks, live, and what can be done to all of it. A sweep is a table.

import { get, mayOperate, post, Problem } from "../api.js";
import { ask } from "../dialogs.js";
import { COMMANDS } from "../commands.js";
import { attribute, fill, h, keyed, text } from "../dom.js";
import { age, clean, count, duration, lasted, many } from "../format.js";
import { flowGraph } from "../graph.js";
import { icon } from "../icons.js";
import { everySecond, live } from "../live.js";
import { badge, card, empty, setBadge, setTime, toast } from "../widgets.js";
import { href } from "../router.js";
import { runsTable } from "../runs-table.js";
import { inOneLine } from "../value.js";

export const title = "Flow";

const FINISHED = ["complete", "failed", "cancelled"];
const MOST = 400;
const MOST_TABLES = 8;

/** @param {HTMLElement} main @param {import("../router.js").Place} place @param {AbortSignal} signal */
export function open(main, place, signal) {
  const { id } = place;
  const path = `v1/flows/${encodeURIComponent(id)}`;
  const name = h("h1");
  const state = badge("pending");
  const about = h("time.quiet");
  const label = h("span.id.quiet", { title: clean(id, 300) }, clean(id, 60));
  /** Of parts that are one task: what is known of it. @type {Map<string, any>} */
  const tasks = new Map();
  const frame = h("section.card.flow-frame", { "aria-label": "Graph", tabindex: 0 });
  const parts = h("tbody");
  /** Of each map: its table, and how many were in each state when it was read. @type {Map<string, {table: ReturnType<typeof runsTable>, read: string}>} */
  const maps = new Map();
  /** @type {any} */
  let flow = null;
  /** @type {ReturnType<typeof flowGraph> | null} */
  let graph = null;
  const act = (/** @type {string} */ verb, /** @type {string} */ label, /** @type {string} */ sentence, /** @type {boolean} */ danger) => ask({
    heading: `${label} ${clean(flow.name, 40)}?`, sentence, button: `${label} the flow`, danger, act: async () => {
      const { tasks } = await post(`${path}/${verb}`);
      toast(verb === "retry" ? `${many(tasks, "task")} to run again` : `${many(tasks, "task")} cancelled, or asked to stop`);
      known.refresh();
    } });
  const retry = h("button.button", { type: "button", onclick: () => act("retry", "Retry", "Failed and cancelled tasks run again, in the order of the flow. Complete tasks stay as they are.", false) }, icon("retry"), "Retry");
  const cancel = h("button.button.danger", { type: "button", onclick: () => act("cancel", "Cancel", "All of its tasks that have not ended are cancelled. Running tasks are asked to stop.", true) }, icon("cancel"), "Cancel");
  const head = h("div.flow-head", null, name, state, label, about, h("span.grow"), h("a.button", { href: href("tasks", "", { flow: id }) }, icon("tasks"), "Tasks"), mayOperate() ? [retry, cancel] : null);

  function draw() {
    if (!flow) return;
    text(name, clean(flow.name, 80));
    setBadge(state, flow.state);
    const sum = Object.values(flow.counts).reduce((/** @type {any} */ a, b) => a + b, 0);
    setTime(about, flow.created, `${count(flow.counts.complete)} of ${many(Number(sum), "task")} complete, submitted ${duration(age(flow.created))} ago`);
    retry.hidden = !(flow.counts.failed || flow.counts.cancelled);
    cancel.hidden = FINISHED.includes(flow.state);
    graph?.update(flow, tasks);
    keyed(parts, flow.parts.slice(0, MOST), (/** @type {any} */ part) => part.name, (part) => partRow(id, part, tasks));
  }

  /** What is below the head: a sweep has no graph worth looking at. */
  function layOut() {
    const isSweep = flow.parts.length === 1 && flow.parts[0].is_map;
    for (const part of flow.parts.filter((/** @type {any} */ each) => each.is_map).slice(0, MOST_TABLES)) maps.set(part.name, { table: runsTable(`Runs of ${clean(part.name, 60)}`), read: "" });
    const tables = [...maps].map(([part, { table }]) => card(isSweep ? "Runs" : `Runs of ${clean(part, 60)}`, table.node));
    if (isSweep) return fill(main, head, tables);
    fill(main, head, frame, card("Tasks", h("div.runs-frame", { tabindex: 0, role: "region", "aria-label": "Tasks of the flow" }, h("table.runs", null,
      h("thead", null, h("tr", null, ["Task", "Runs", "State", "After", "Took", "Result or error"].map((each) => h("th", { scope: "col" }, each)))), parts))), tables);
    if (flow.parts.length > MOST) fill(frame, empty("Too many parts to draw", `It has ${count(flow.parts.length)} of them: see its tasks.`, COMMANDS.showFlow(id)));
    else fill(frame, (graph = flowGraph(flow)).node);
    edges();
  }

  /** Read again what has changed. @param {AbortSignal} stop */
  async function readRuns(stop) {
    for (const [part, known] of maps) {
      const counts = JSON.stringify(flow.parts.find((/** @type {any} */ each) => each.name === part)?.counts);
      if (known.read === counts) continue;
      known.table.update(await get(`v1/sweeps/${encodeURIComponent(id)}`, { part }, { signal: stop }));
      known.read = counts;
    }
  }

  const known = live(signal, async (stop) => {
    flow = await get(path, {}, { signal: stop });
    document.title = `${clean(flow.name, 40)} · Stayer`;
    if (!head.isConnected) layOut();
    draw();
    if (graph) await learn(flow, tasks, stop);
    draw();
    await readRuns(stop);
  }, {
    interval: 2,
    matters: (event) => event.id.startsWith(`${id}.`),
    expects: (error) => {
      const none = error instanceof Problem && error.status === 404;
      if (none) fill(main, h("h1", null, "Flow"), empty("There is no such flow", "It may have been purged with the last of its tasks."));
      return none;
    },
  });
  everySecond(signal, draw);

  /** Where the graph goes on beyond its frame, it fades. */
  const edges = () => {
    attribute(frame, "data-before", frame.scrollLeft > 4);
    attribute(frame, "data-after", frame.scrollWidth - frame.clientWidth - frame.scrollLeft > 4);
  };
  frame.addEventListener("scroll", edges, { passive: true });
  new ResizeObserver(edges).observe(frame);
}

/** How far the single tasks of a flow are, and how long they took; those that have ended are asked for once. @param {any} flow @param {Map<string, any>} known @param {AbortSignal} signal */
async function learn(flow, known, signal) {
  const wanted = flow.parts.filter((/** @type {any} */ part) => !part.is_map && (part.state === "started" || FINISHED.includes(part.state))
    && (part.state === "started" || known.get(part.name)?.state !== part.state)).map((/** @type {any} */ part) => part.name);
  for (let at = 0; at < wanted.length; at += 50) {
    const ids = wanted.slice(at, at + 50).map((/** @type {string} */ name) => `${flow.id}.${name}`);
    const page = await get("v1/tasks", { id: ids, limit: 100, brief: true }, { signal });
    for (const task of page.tasks) known.set(task.id.slice(flow.id.length + 1), task);
  }
}

/** A part of the flow as a row. @param {string} flow @param {any} first @param {Map<string, any>} tasks */
function partRow(flow, first, tasks) {
  const name = clean(first.name, 80);
  const state = badge(first.state);
  const took = h("td.number");
  const result = h("td.r-values");
  const link = first.is_map ? href("tasks", "", { flow, q: `${flow}.${first.name}.` }) : href("task", `${flow}.${first.name}`);
  const node = h("tr", null, h("td", null, h("a", { href: link }, name)), h("td.quiet", null, first.is_map ? many(first.tasks, "task") : clean(first.kind, 60)),
    h("td", null, state), h("td.quiet", null, clean(first.after.join(", "), 120) || "–"), took, result);
  return { node, update: (/** @type {any} */ part) => {
    const task = tasks.get(part.name);
    setBadge(state, part.state);
    text(took, task ? duration(lasted(task)) : "–");
    text(result, part.is_map ? `${count(part.counts.complete)} complete${part.counts.failed ? `, ${count(part.counts.failed)} failed` : ""}`
      : task?.error ? clean(`${task.error.type}: ${task.error.message}`, 300) : task && task.result !== null ? inOneLine(task.result, 300) : "–");
  } };
}
