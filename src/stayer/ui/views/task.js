// One task: what it does, what it did, and all that can be done to it.

import { get, maySubmit, post, Problem, taskPath } from "../api.js";
import { COMMANDS, quoted } from "../commands.js";
import { attribute, fill, h, keyed, text } from "../dom.js";
import { absolute, age, clean, clock, count, duration, fraction, kind, many, now, percent, seconds, size, title as nameOf } from "../format.js";
import { shownEvents } from "../task-events.js";
import { icon } from "../icons.js";
import { lanesChart } from "../attempt-lanes.js";
import { everySecond, live } from "../live.js";
import { logView } from "../log.js";
import { noticesCard } from "../notices.js";
import { badge, card, copy, copyable, empty, progressBar, queueLink, say, setBadge, setTime, standing, toast, when } from "../widgets.js";
import { elapsed, remaining, silence, unsaved } from "../risk.js";
import { go, href } from "../router.js";
import { statisticsCards } from "../statistics.js";
import { usageCharts } from "../usage.js";
import { learn, typicalRun } from "../typical.js";
import { value } from "../value.js";
import { explainer, forecast } from "../why-waiting.js";
import { permitted } from "../verbs.js";

export const title = "Task";

/** @param {HTMLElement} main @param {import("../router.js").Place} place @param {AbortSignal} signal */
export function open(main, place, signal) {
  const { id } = place;
  const view = frame(id, signal);
  /** @type {any} */
  let task = null;
  let asked = 0;
  const leaving = { now: false };
  const explain = explainer(id);
  /** @type {any} */
  let explained = null;

  const draw = () => {
    if (!task) return;
    head(view, task);
    hero(view, task, explained?.forecast);
    view.lanes.update(task);
  };

  const refresh = live(signal, async (stop) => {
    if (leaving.now) return; // it is about to be deleted: then it is not there to be asked for
    task = await get(taskPath(id), {}, { signal: stop });
    if (task.id !== id) return location.replace(href("task", task.id)); // only its beginning was given
    if (!view.node.isConnected) fill(main, view.node);
    document.title = `${nameOf(task, 40)} · Stayer`;
    draw();
    buttons(view.verbs, task, () => refresh.refresh(), leaving);
    facts(view, task);
    const running = ["started", "reserved"].includes(task.state);
    if (running && task.worker && Date.now() - asked > 8000) {
      asked = Date.now();
      post("v1/workers/attend", { workers: [task.worker], seconds: 12 }).catch(() => {});
    }
    explained = await explain(task, stop);
    reasons(view.why, explained, task);
    const [series] = await Promise.all([
      task.attempt ? get(taskPath(id, "usage"), {}, { signal: stop }) : { usage: [] },
      view.log.update(task.attempts.map((/** @type {any} */ each) => each.attempt)),
      learn([task], stop).catch(() => {}),
      view.notices.update(task),
      view.statistics.update(task, stop),
    ]);
    view.usage.update(series.usage, task);
    draw();
  }, {
    interval: 1,
    matters: (event) => event.id === id,
    expects: (error) => {
      const none = error instanceof Problem && error.status === 404;
      if (none) fill(main, empty("There is no such task", `${clean(id, 80)}: it was deleted or purged, or the id is mistyped.`, COMMANDS.show(clean(id, 80))));
      return none;
    },
  });
  everySecond(signal, draw);
}

/** @param {string} id @param {AbortSignal} signal */
function frame(id, signal) {
  const name = h("h1");
  const state = badge("…");
  const line = h("div.task-line");
  const verbs = h("div.buttons.verbs", { role: "toolbar", "aria-label": "Actions" });
  const bar = progressBar();
  const figure = h("span.hero-percent");
  const message = h("span.hero-message");
  const figures = h("dl.hero-figures");
  const why = h("ul.hero-why", { "aria-label": "Why" });
  const error = h("section.card.error-card", { "aria-label": "Error", hidden: true });
  const lanes = lanesChart();
  const usage = usageCharts();
  const statistics = statisticsCards(id);
  const log = logView(id, signal);
  const details = h("dl.facts");
  const values = h("div.column");
  const events = h("ol.events");
  const notices = noticesCard(id, signal);
  const head = h("div.task-head", null, h("div.task-names", null, h("div.task-name", null, name, state), line), maySubmit() ? verbs : null);
  const node = h("div.column", null, head,
    h("section.card.hero", { "aria-label": "Progress" }, h("div.hero-line", null, figure, message), bar.node, figures, why),
    error,
    h("div.task-split", null,
      h("div.column", null, card("Attempts", lanes.node), card("Log", log.node)),
      h("div.column", null, statistics.node, usage.node, values, card("Details", details), notices.node, card("Events", events))));
  return { node, name, state, line, verbs, bar, figure, message, figures, why, error, lanes, usage, statistics, log, details, values, notices, events };
}

/** @param {ReturnType<typeof frame>} view @param {any} task */
function head(view, task) {
  text(view.name, nameOf(task, 300));
  attribute(view.name, "title", nameOf(task, 2000));
  setBadge(view.state, standing(task));
  const meta = Object.entries(task.meta ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  if (view.line.dataset.for !== `${task.id} ${task.tags} ${meta}`) {
    view.line.dataset.for = `${task.id} ${task.tags} ${meta}`;
    const button = h("button.icon-button.small", { type: "button", "aria-label": "Copy the id", onclick: async () => {
      await copy(task.id);
      toast("Id copied.");
    } }, icon("copy"));
    fill(view.line, h("span.id", { title: clean(task.id, 400) }, clean(task.id, 60)), button, h("span.quiet", null, "in"), queueLink(task.queue),
      task.owner ? [h("span.quiet", null, "by"), h("span", null, clean(task.owner, 40))] : null,
      task.key ? [h("span.quiet", null, "key"), h("span", null, clean(task.key, 40))] : null,
      task.unique ? [h("span.quiet", null, "unique"), h("span", null, clean(task.unique, 40))] : null,
      task.tags.slice(0, 12).map((/** @type {string} */ tag) => h("a.tag", { href: href("tasks", "", { tag }) }, clean(tag, 40))),
      meta.slice(0, 12).map((each) => h("a.tag", { href: href("tasks", "", { meta: each }) }, clean(each, 60))));
  }
}

/** The verbs that fit. They change only when the task does, so that none slips away under the pointer. */
function buttons(/** @type {HTMLElement} */ place, /** @type {any} */ task, /** @type {() => void} */ again, /** @type {{now: boolean}} */ leaving) {
  const fitting = permitted().filter((verb) => verb.fits(task));
  /** @type {any} */ (place).task = task;
  keyed(place, fitting, (verb) => verb.verb, (verb) => ({
    node: h(`button.button${verb.danger ? ".danger" : ""}`, { type: "button", "data-verb": verb.verb, onclick: async () => {
      leaving.now = verb.verb === "delete";
      const done = await verb.run(/** @type {any} */ (place).task);
      leaving.now &&= done;
      if (!done) return;
      if (verb.verb === "delete") go(href("tasks"));
      else again();
    } }, icon(verb.verb), verb.label),
  }));
}

/** Why it does not get on; of one that runs well or has ended, the rest of the page tells. @param {Element} place @param {any} explained @param {any} task */
function reasons(place, explained, task) {
  const plain = ["running", "reserved", "complete", "failed", "cancelled"];
  const shown = explained.state === task.state ? explained.reasons.filter((/** @type {any} */ each) => !plain.includes(each.reason)) : [];
  keyed(place, shown, (/** @type {any} */ each) => each.reason, () => {
    const node = h("li");
    return { node, update: (/** @type {any} */ each) => say(node, `${each.text[0].toUpperCase()}${clean(each.text, 400).slice(1)}`) };
  });
}

/** @param {ReturnType<typeof frame>} view @param {any} task @param {any} expected */
function hero(view, task, expected) {
  const part = task.state === "complete" ? 1 : fraction(task.progress);
  const running = ["started", "reserved"].includes(task.state);
  view.bar.update(task);
  text(view.figure, percent(part) || { started: "running", reserved: "about to start" }[standing(task)] || standing(task));
  text(view.message, clean(task.progress?.message ?? (running && !task.progress ? "It has reported no progress." : ""), 300));
  const left = remaining(task);
  const [starts, ends] = [forecast(expected?.starts), forecast(expected?.ends)];
  const ran = running ? elapsed(task) : task.started_at && task.finished_at ? (seconds(task.finished_at) ?? 0) - (seconds(task.started_at) ?? 0) : null;
  const often = typicalRun(task);
  /** @type {[string, string, string, string?][]} */
  const shown = [];
  if (running) shown.push(["Remaining", left === null ? "–" : left ? duration(left) : "soon", left === null ? (ends ? `ends ${ends[0]}, ${ends[1]}` : "no estimate") : !left ? "" : `until ≈ ${clock(now() + left)}`]);
  if (ran !== null) shown.push([running ? "Elapsed" : "Took", duration(ran), often ? `usually ${duration(often.median)}` : "", often && ran > often.most * 1.3 ? "warn" : ""]);
  if (running) shown.push(["Last report", silence(task) === null ? "–" : `${duration(silence(task))} ago`, task.silence_limit ? `limit ${duration(task.silence_limit)}` : "", (silence(task) ?? 0) > 600 ? "warn" : ""]);
  if (running) shown.push(["Unsaved work", duration(unsaved(task) ?? 0), task.checkpoint_at ? "since its checkpoint" : "it has saved no checkpoint"]);
  if (!running && !task.finished_at) shown.push(["Waiting", duration(age(task.created)), task.eta ? `due ${clock(seconds(task.eta) ?? 0)}` : task.held ? "held: release it" : `priority ${task.priority}`]);
  if (!running && !task.finished_at && starts) shown.push(["Starts", ...starts]);
  if (!running && !task.finished_at && ends) shown.push(["Ends", ...ends]);
  if (task.finished_at) shown.push(["Ended", `${duration(age(task.finished_at))} ago`, clock(seconds(task.finished_at) ?? 0)]);
  if (task.node) shown.push(["Node", clean(task.node, 24), task.pid ? `pid ${task.pid}` : ""]);
  keyed(view.figures, shown, ([label]) => label, ([label]) => {
    const figure = h("dd.hero-figure");
    const under = h("dd.under");
    const node = h("div", null, h("dt", null, label), figure, under);
    return { node, update: ([, said, more, mood]) => {
      text(figure, said);
      text(under, more);
      attribute(node, "data-mood", mood || null);
    } };
  });
}

/** The code that a task asks for, in words. @param {any} code */
const asked = (code) => [code.image, code.git, code.python && `Python ${code.python}`, ...(code.requirements ?? []).map((/** @type {string} */ line) => line.split(" --hash")[0]), ...(code.files ?? []).map((/** @type {{name: string}} */ file) => file.name)].filter(Boolean).join(", ");

/** What that has become. @param {any} found */
const pinned = (found) => found.anew ? "to be resolved again" : [found.python && `Python ${found.python}`, found.image, found.commit && `commit ${found.commit}${found.git ? ` of ${found.git}` : ""}`, found.lock && `lock ${found.lock.slice(0, 12)}`].filter(Boolean).join(", ");

/** What changes seldom: drawn when the record has changed. @param {ReturnType<typeof frame>} view @param {any} task */
function facts(view, task) {
  const mark = `${task.state} ${task.attempt} ${task.events.at(-1)?.number} ${task.priority} ${task.time_limit} ${task.silence_limit} ${task.memory_limit} ${task.finish_before}`;
  if (view.details.dataset.mark === mark) return;
  view.details.dataset.mark = mark;
  const limits = [task.time_limit && `${duration(task.time_limit)} of time`, task.silence_limit && `${duration(task.silence_limit)} of silence`, task.memory_limit && `${size(task.memory_limit)} of memory`].filter(Boolean);
  /** @type {[string, import("../dom.js").Child][]} */
  const rows = [
    ["Kind", clean(kind(task), 120)], ["Priority", count(task.priority)],
    ["Limits", limits.length ? limits.join(", ") : "none"],
    ["Finish before", task.finish_before && setTime(h("time"), task.finish_before, absolute(task.finish_before).split(" (")[0])],
    ["Attempts", `${task.attempt}, failed ${task.failures}, interrupted ${task.interruptions}`],
    ["Retries", count(task.retries)],
    ["Flow", task.flow && h("a", { href: href("flow", task.flow) }, clean(task.flow, 80))],
    ["Runs after", task.upstreams && many(task.upstreams, "task")],
    ["Ending", task.ending], ["Directory", task.cwd && clean(task.cwd, 200)], ["Worker", task.worker && clean(task.worker, 80)],
    ["Code", task.code && clean(asked(task.code), 300)], ["From commit", task.source_commit && clean(task.source_commit, 60)], ["Pinned to", task.pinned && clean(pinned(task.pinned), 200)],
    ["Submitted", setTime(h("time"), task.created, absolute(task.created).split(" (")[0])],
  ];
  fill(view.details, rows.filter(([, said]) => said).map(([label, said]) => [h("dt", null, label), h("dd", null, said)]).flat());
  fill(view.values,
    task.command ? card("Command", copyable(task.command.map(quoted).join(" ").slice(0, 4000))) : null,
    task.parameters !== null ? card("Parameters", value(task.parameters)) : null,
    task.state === "complete" || task.result !== null ? card("Result", value(task.result)) : null,
    task.env ? card("Environment", value(task.env)) : null);
  view.error.hidden = !task.error;
  if (task.error) fill(view.error, h("h2", null, task.state === "failed" ? "Error" : "The last error"), h("p.error-line", null, h("b", null, clean(task.error.type, 80)), " ", clean(task.error.message, 600)),
    task.error.traceback ? h("pre.traceback", { tabindex: 0 }, String(task.error.traceback).slice(-20_000)) : null);
  keyed(view.events, shownEvents(task.id, task.events), (/** @type {any} */ event) => String(event.number), (event) => ({
    node: h("li", null, badge(event.event), h("span.quiet", null, clean([event.attempt ? `attempt ${event.attempt}` : "", event.note ?? ""].filter(Boolean).join(", "), 120)), when(event.at)),
  }));
}
