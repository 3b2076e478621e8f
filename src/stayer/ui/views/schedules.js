// Schedules: when the clock submits what, and what became of the last one.

import { get, mayOperate, patch, post, remove } from "../api.js";
import { ask } from "../dialogs.js";
import { COMMANDS, words } from "../commands.js";
import { attribute, fill, h, keyed, text } from "../dom.js";
import { clean, clock, clockIn, duration, now, seconds, title as nameOf } from "../format.js";
import { icon } from "../icons.js";
import { everySecond, live } from "../live.js";
import { badge, empty, setBadge, setTime, toast } from "../widgets.js";
import { href } from "../router.js";

export const title = "Schedules";

const OVERLAP = {
  skip: "left out while the one before runs",
  queue: "stands in line behind the one before",
  cancel: "cancels the one before",
};

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
    schedules = (await get("v1/schedules", {}, { signal: stop })).schedules;
    draw();
    fill(none, schedules.length ? null : empty("No schedules yet", "Let the clock submit tasks.", COMMANDS.addSchedule));
  }, { interval: 5, matters: () => true });
  everySecond(signal, draw);
}

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** When, as it is asked for. @param {any} [schedule] @returns {import("../dialogs.js").Field[]} */
function timeFields(schedule) {
  return [
    { name: "cron", label: "Times", value: schedule?.cron, required: true, placeholder: "30 2 * * *", hint: "Minute, hour, day of the month, month, day of the week; or @hourly, @daily, @weekly." },
    { name: "zone", label: "Time zone", value: schedule?.zone ?? HERE, required: true },
    { name: "overlap", label: "Overlap", value: OVERLAP[/** @type {keyof typeof OVERLAP} */ (schedule?.overlap ?? "skip")], options: Object.values(OVERLAP) },
  ];
}

/** @param {Record<string, string>} answers */
const timesOf = ({ cron, zone, overlap }) => ({ cron, zone, overlap: Object.entries(OVERLAP).find(([, said]) => said === overlap)?.[0] });

/** @param {() => void} again */
function add(again) {
  ask({
    heading: "Add a schedule", button: "Add",
    fields: [
      { name: "name", label: "Name", required: true, placeholder: "nightly" },
      { name: "command", label: "Command", required: true, placeholder: "make report", hint: "Words and quotes as in a shell; for pipes: sh -c '…'." },
      { name: "queue", label: "Queue", placeholder: "as the server is set, usually default" },
      ...timeFields(),
    ],
    act: async ({ name, command, queue, ...times }) => {
      await post("v1/schedules", { name, ...timesOf(/** @type {any} */ (times)), task: { command: words(command), ...(queue ? { queue } : {}) } });
      toast(`Schedule ${clean(name, 40)}: added`);
      again();
    },
  });
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
    ? act("resume", "Resume", "It ticks again from now on; what came in the pause is left out.", "resumed")
    : act("pause", "Pause", "It submits nothing until it is resumed; what runs, runs on.", "paused") });
  const running = h("button.button.small", { type: "button", onclick: () => act("run", "Run", "Its task is submitted now, once, apart from its ticks.", "its task is in the queue") }, icon("signal"), "Run");
  const changing = h("button.button.small", { type: "button", onclick: () => ask({
    heading: `Change schedule ${shown}`, button: "Set", fields: timeFields(schedule),
    act: async (answers) => {
      await patch(path, timesOf(/** @type {any} */ (answers)));
      toast(`Schedule ${shown}: set`);
      again();
    } }) }, icon("set"), "Set");
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
    h("p", null, h("span.quiet", null, "Last task "), last, none, " ", ended));
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
    text(policy, OVERLAP[/** @type {keyof typeof OVERLAP} */ (item.overlap)]);
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
