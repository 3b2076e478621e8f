// Schedules: when the clock submits what, and what became of the last one.

import { get, mayOperate, patch, post, remove } from "../api.js";
import { ask } from "../dialogs.js";
import { COMMANDS } from "../commands.js";
import { attribute, fill, h, keyed, text } from "../dom.js";
import { clean, clock, clockIn, duration, lasted, now, seconds, spelled, title as nameOf } from "../format.js";
import { icon } from "../icons.js";
import { everySecond, live } from "../live.js";
import { changes, fieldsOf, formOf, queueNames, taskOf } from "../task-form.js";
import { badge, empty, setBadge, setTime, standing, toast } from "../widgets.js";
import { href } from "../router.js";

export const title = "Schedules";

const OVERLAP = {
  skip: "skip this run",
  queue: "queue this run behind it",
  cancel: "cancel the one before",
};
const CATCH_UP = { none: "run none of them", last: "run the last of them", all: "run all of them" };
/** What a task has that a schedule gives to each anew. */
const OF_EACH = ["id", "delay"];
const RUNS = 30;
/** Of so many schedules the runs are shown. */
const MOST_PASTS = 30;
const WHEN = "Missed and overlapping runs";

/** @param {HTMLElement} main @param {import("../router.js").Place} _place @param {AbortSignal} signal */
export function open(main, _place, signal) {
  const list = h("div.queues", { "data-list": true });
  const none = h("div");
  const adding = h("button.button", { type: "button", onclick: () => add(() => known.refresh()) }, icon("schedules"), "Add");
  fill(main, h("div.list-tools", null, h("h1", null, "Schedules"), h("span.grow"), mayOperate() ? adding : null), list, none);
  /** @type {any[]} */
  let schedules = [];
  const draw = () => keyed(list, schedules, (each) => each.name, (each) => scheduleCard(each.name, () => known.refresh()));
  const known = live(signal, async (stop) => {
    const found = (await get("v1/schedules", {}, { signal: stop })).schedules;
    schedules = await Promise.all(found.map(async (/** @type {any} */ each, /** @type {number} */ index) => (
      { ...each, runs: index >= MOST_PASTS ? [] : await pastRuns(each.name, stop) })));
    draw();
    fill(none, schedules.length ? null : empty("No schedules yet", "Submit tasks on a schedule.", COMMANDS.addSchedule));
  }, { interval: 5, matters: () => true });
  everySecond(signal, draw);
}

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** When, as it is asked for. @param {any} [schedule] @returns {import("../dialogs.js").Field[]} */
function timeFields(schedule) {
  return [
    { name: "cron", label: "Times", value: schedule?.cron, required: true, placeholder: "30 2 * * *", hint: "Minute, hour, day of the month, month, day of the week; or @hourly, @daily, @weekly." },
    { name: "zone", label: "Time zone", value: schedule?.zone ?? HERE, required: true },
    { name: "overlap", label: "If the run before has not ended", value: OVERLAP[/** @type {keyof typeof OVERLAP} */ (schedule?.overlap ?? "skip")], options: Object.values(OVERLAP) },
    { name: "catch_up", label: "If runs were missed", group: WHEN, value: CATCH_UP[/** @type {keyof typeof CATCH_UP} */ (schedule?.catch_up ?? "last")], options: Object.values(CATCH_UP), hint: "While no worker or server was running." },
    { name: "jitter", label: "Spread starts over", group: WHEN, value: schedule?.jitter ? spelled(schedule.jitter) : "", placeholder: "exactly on time, or 5m", hint: "Each run is late by a random part of this." },
  ];
}

/** The key of what was chosen. @param {Record<string, string>} options @param {string} chosen */
const keyOf = (options, chosen) => Object.entries(options).find(([, said]) => said === chosen)?.[0];

/** @param {Record<string, string>} answers */
const timesOf = ({ cron, zone, overlap, catch_up, jitter }) => ({ cron, zone, overlap: keyOf(OVERLAP, overlap), catch_up: keyOf(CATCH_UP, catch_up), jitter: jitter || 0 });

/** What of the answers is about the task. @param {Record<string, string>} answers */
const ofTask = (answers) => Object.fromEntries(Object.entries(answers).filter(([name]) => !["schedule", "cron", "zone", "overlap", "catch_up", "jitter"].includes(name)));

/** @param {() => void} again */
async function add(again) {
  const names = await queueNames();
  ask({
    heading: "Add a schedule", button: "Add", wide: true,
    fields: [
      { name: "schedule", label: "Name", required: true, placeholder: "nightly" },
      ...timeFields(),
      ...fieldsOf(names).filter(({ name }) => !OF_EACH.includes(name)),
    ],
    act: async (answers) => {
      await post("v1/schedules", { name: answers.schedule, ...timesOf(answers), task: taskOf(ofTask(answers)) });
      toast(`Schedule ${clean(answers.schedule, 40)}: added`);
      again();
    },
  });
}

/** @param {any} schedule @param {string} path @param {() => void} again */
async function change(schedule, path, again) {
  const fields = await formOf(schedule.task, OF_EACH, "What to run");
  ask({
    heading: `Change schedule ${clean(schedule.name, 40)}`, button: "Save", wide: true, fields: [...timeFields(schedule), ...fields],
    act: async (answers) => {
      const changed = changes(schedule.task, ofTask(answers));
      const task = Object.fromEntries(Object.entries({ ...schedule.task, ...changed }).filter(([, value]) => value !== null));
      await patch(path, { ...timesOf(answers), ...(Object.keys(changed).length ? { task } : {}) });
      toast(`Schedule ${clean(schedule.name, 40)}: set`);
      again();
    },
  });
}

/** The last runs of a schedule, the oldest first. @param {string} name @param {AbortSignal} stop */
async function pastRuns(name, stop) {
  const page = await get("v1/tasks", { prefix: `${name}@`, limit: RUNS, brief: true, partial: true }, { signal: stop });
  return page.tasks.reverse();
}

/** What holds for its runs, in words. @param {any} schedule */
function policyOf({ overlap, catch_up, jitter, task }) {
  return [
    `if the run before has not ended: ${OVERLAP[/** @type {keyof typeof OVERLAP} */ (overlap)]}`,
    `if runs were missed: ${CATCH_UP[/** @type {keyof typeof CATCH_UP} */ (catch_up)]}`,
    jitter ? `spread over ${duration(jitter)}` : "", task.retries ? `${task.retries} ${task.retries === 1 ? "retry" : "retries"}` : "",
  ].filter(Boolean).join(" · ");
}

/** @param {string} name @param {() => void} again */
function scheduleCard(name, again) {
  const path = `v1/schedules/${encodeURIComponent(name)}`;
  const shown = clean(name, 40);
  const state = badge("paused");
  const next = h("div.figure");
  const moment = h("time.under");
  const here = h("div.under");
  const times = h("p");
  const work = h("p.queue-head");
  const policy = h("span.quiet");
  const last = h("a.id");
  const ended = badge("pending");
  const none = h("span.quiet", null, "none yet");
  let schedule = /** @type {any} */ (null);
  const act = (/** @type {string} */ verb, /** @type {string} */ label, /** @type {string} */ sentence, /** @type {string} */ done) => ask({
    heading: `${label} schedule ${shown}?`, sentence, button: label, act: async () => {
      await post(`${path}/${verb}`);
      toast(`Schedule ${shown}: ${done}`);
      again();
    } });
  const pausing = h("button.button.small", { type: "button", onclick: () => schedule.paused
    ? act("resume", "Resume", "It submits tasks again from now on. Runs missed during the pause are skipped.", "resumed")
    : act("pause", "Pause", "It submits nothing until you resume it. Running tasks go on.", "paused") });
  const running = h("button.button.small", { type: "button", onclick: () => act("run", "Run", "Its task is submitted once, now. The schedule itself does not change.", "its task is in the queue") }, icon("signal"), "Run");
  const changing = h("button.button.small", { type: "button", onclick: () => change(schedule, path, again) }, icon("set"), "Edit");
  const past = h("div.past-runs", { role: "list", "aria-label": `Runs of ${shown}` });
  const all = h("a.more", { href: href("tasks", "", { prefix: `${name}@` }) }, "All runs");
  const dropping = h("button.icon-button", { type: "button", "aria-label": `Delete schedule ${shown}`, title: "Delete", onclick: () => ask({
    heading: `Delete schedule ${shown}?`, button: "Delete", danger: true,
    sentence: `It submits nothing more; its tasks stay.${schedule.origin ? ` ${clean(schedule.origin, 80)} declares it: while it does, it comes back.` : ""}`,
    act: async () => {
      await remove(path);
      toast(`Schedule ${shown}: deleted`);
      again();
    } }) }, icon("delete"));
  const node = h("section.card.schedule", { "aria-label": `Schedule ${shown}`, "data-row": true },
    h("div.queue-top", null, h("h3", null, clean(name, 60)), state, h("span.grow"),
      mayOperate() ? h("div.buttons", null, running, pausing, changing, dropping) : null),
    h("div.queue-middle", null, h("div", null, h("div.tile-label", null, "Next"), next, moment, here), h("div.queue-why", null, times, work, policy)),
    h("p", null, h("span.quiet", null, "Last task "), last, none, " ", ended), past, all);
  return { node, update: (/** @type {any} */ item) => {
    schedule = item;
    state.hidden = !item.paused;
    setBadge(state, "paused");
    const at = item.paused ? null : seconds(item.next);
    const left = at === null ? 0 : at - now();
    text(next, at === null ? "–" : left > 0 ? duration(left) : "due");
    const there = at === null ? "" : clockIn(at, item.zone) ?? clock(at);
    setTime(moment, item.paused ? null : item.next, there);
    text(here, at === null || there.startsWith(`${clock(at)} `) ? "" : `${clock(at)} here`);
    text(times, `${clean(item.cron, 60)} in ${clean(item.zone, 40)}`);
    const does = item.task.name || item.task.command ? nameOf(item.task, 200) : "plain task";
    text(work, `${does} in queue ${clean(item.task.queue, 40)}`);
    attribute(work, "title", does);
    text(policy, policyOf(item));
    keyed(past, item.runs, (/** @type {any} */ task) => task.id, (/** @type {any} */ task) => {
      const mark = h("a", { href: href("task", task.id) });
      return { node: h("span", { role: "listitem" }, mark), update: (/** @type {any} */ run) => {
        attribute(mark, "data-state", standing(run));
        const about = `${standing(run)}, ${clock(seconds(run.created) ?? 0)}${run.started_at ? `, took ${duration(lasted(run))}` : ""}`;
        attribute(mark, "title", about);
        attribute(mark, "aria-label", about);
      } };
    });
    all.hidden = !item.runs.length;
    last.hidden = ended.hidden = item.last_task === null;
    none.hidden = item.last_task !== null;
    if (item.last_task !== null) {
      attribute(last, "href", href("task", item.last_task));
      text(last, clean(item.last_task, 60));
      setBadge(ended, item.last_state ?? "deleted");
    }
    if (pausing.dataset.paused !== String(item.paused)) {
      pausing.dataset.paused = String(item.paused);
      fill(pausing, icon(item.paused ? "resume" : "pause"), item.paused ? "Resume" : "Pause");
    }
  } };
}
