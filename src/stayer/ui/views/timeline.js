// Nodes over time: which task ran where, side by side. Zoomed with the wheel, moved by dragging.

import { get, taskPath } from "../api.js";
import { attribute, fill, h, s, text } from "../dom.js";
import { clean, duration, exactClock, kind, many, now, seconds, title as nameOf } from "../format.js";
import { recall, recentEvents } from "../recent-events.js";
import { leftOut } from "../health.js";
import { everySecond, live } from "../live.js";
import { empty } from "../widgets.js";
import { href, rewrite } from "../router.js";
import { timeTicks } from "../ticks.js";

export const title = "Timeline";

const HOURS = [1, 3, 6, 12, 24, 72];
/** What is shown first, in hours; of a young store, as much as there is. */
const LONG = 6;
const SHORT = 1 / 6;
const LEFT = 110;
/** Below this width the name of a node stands above its rows, not beside them. */
const NARROW = 560;
const ROW = 22;
const HEAD = 26;
const MOST = 2000;
const ATTEMPTS = 100;
const RUN = ["started", "reserved", "complete", "failed", "cancelled"];
const WAIT = ["pending", "scheduled", "waiting"];
/** How many tasks that wait are looked through for those that have run before. */
const WAITING = 500;
/** How an attempt that was not the last one looks, by its ending. */
const ENDED = { done: "complete", cancelled: "cancelled", snoozed: "complete", interrupted: "interrupted", lost: "interrupted" };

/** @typedef {{task: any, from: number, to: number, row: number, look: string}} Bar */
/** @typedef {{when: string, attempts: any[]}} Known `when` says what the task was like */
/** @typedef {{node: string, rows: number, bars: Bar[]}} Lane */

/** @param {HTMLElement} main @param {import("../router.js").Place} place @param {AbortSignal} signal */
export function open(main, place, signal) {
  const view = { hours: Number(place.query.get("hours")) || LONG, shift: 0 };
  let isChosen = place.query.has("hours");
  const drawing = s("svg.gantt", { role: "group", "aria-label": "Tasks by node over time" });
  const box = h("div.chart-box.gantt-box", null, drawing);
  const about = h("span.quiet", { role: "status" });
  const none = h("div");
  const choices = HOURS.map((hours) => h("button.button.small", { type: "button", onclick: () => zoom(hours, 0) }, hours < 24 ? `${hours} h` : `${hours / 24} d`));
  const current = h("button.button.small", { type: "button", onclick: () => zoom(view.hours, 0) }, "To now");
  fill(main, h("div.list-tools", null, h("h1", null, "Timeline"), h("span.grow"), about, choices, current),
    h("section.card", { "aria-label": "Timeline" }, legend(), box, none));
  /** @type {any[]} */
  let tasks = [];
  /** What is known of attempts, by task. @type {Map<string, Known>} */
  const earlier = new Map();
  let isRead = false;
  let isPart = false;
  let width = 0;
  const left = () => (width < NARROW ? 0 : LEFT);

  function zoom(/** @type {number} */ hours, /** @type {number} */ shift) {
    isChosen = true;
    view.hours = Math.min(24 * 14, Math.max(1 / 60, hours));
    view.shift = Math.max(0, shift);
    rewrite(href("timeline", "", { hours: String(Math.round(view.hours * 100) / 100) }));
    draw();
  }

  function draw() {
    choices.forEach((button, index) => attribute(button, "aria-pressed", String(HOURS[index] === view.hours && !view.shift)));
    attribute(current, "disabled", !view.shift);
    const to = now() - view.shift;
    const from = to - view.hours * 3600;
    const lanes = laid([...tasks.filter((task) => !waits(task)), ...attemptsOf(tasks, earlier)], from, to);
    const above = left() ? 0 : 18;
    const height = Math.max(HEAD + 40, lanes.reduce((sum, lane) => sum + lane.rows * ROW + 14 + above, HEAD));
    attribute(drawing, "width", width);
    attribute(drawing, "height", height);
    attribute(drawing, "viewBox", `0 0 ${width} ${height}`);
    const x = (/** @type {number} */ at) => left() + ((at - from) / (to - from)) * (width - left());
    let y = HEAD;
    const parts = lanes.map((lane) => {
      y += above;
      const part = laneDrawing(lane, y, x, width, from, to);
      y += lane.rows * ROW + 14;
      return part;
    });
    if (width) fill(drawing, axis(from, to, x, height), parts);
    if (!isRead) return;
    const shown = lanes.reduce((sum, lane) => sum + lane.bars.length, 0);
    text(about, `${many(shown, "task")} on ${many(lanes.length, "node")}`);
    none.replaceChildren(...(shown || isPart ? [] : [empty("Nothing ran in this time", "Choose a longer period, or drag to an earlier one.")]));
  }

  new ResizeObserver(([entry]) => {
    width = Math.floor(entry.contentRect.width);
    draw();
  }).observe(box);

  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaY) < Math.abs(event.deltaX)) return;
    event.preventDefault();
    const part = Math.min(1, Math.max(0, (event.clientX - box.getBoundingClientRect().left - left()) / Math.max(1, width - left())));
    const hours = view.hours * (event.deltaY > 0 ? 1.25 : 0.8);
    // What is under the pointer stays under it.
    zoom(hours, view.shift + (view.hours - hours) * 3600 * (1 - part));
  }, { passive: false });
  box.addEventListener("pointerdown", (event) => {
    const begun = event.clientX;
    const shift = view.shift;
    let moved = false;
    const move = (/** @type {PointerEvent} */ now) => {
      if (!moved && Math.abs(now.clientX - begun) < 5) return;
      moved = true;
      box.setPointerCapture(event.pointerId);
      zoom(view.hours, shift + ((now.clientX - begun) / Math.max(1, width - left())) * view.hours * 3600);
    };
    box.addEventListener("pointermove", move);
    addEventListener("pointerup", () => box.removeEventListener("pointermove", move), { once: true });
  });

  const refresh = live(signal, async (stop) => {
    const [past, again] = await Promise.all([ran(stop), waiting(stop)]);
    const found = tasks = [...new Map([...again.tasks, ...past.tasks].map((task) => [task.id, task])).values()];
    const away = leftOut(past, again);
    [isRead, isPart] = [true, Object.keys(away).length > 0];
    if (!isChosen) view.hours = Math.min(LONG, Math.max(SHORT, 1.15 * (now() - Math.min(now(), ...tasks.map((task) => seconds(task.started_at) ?? now()))) / 3600));
    draw();
    await learnAttempts(found, earlier, stop);
    draw();
    return away;
  }, { interval: 15, matters: (event) => ["started", "complete", "failed", "cancelled"].includes(event.event) || isBack(event) });
  recall(() => recentEvents().some(isBack) && refresh.refresh(), signal);
  everySecond(signal, () => view.shift || draw());
}

function legend() {
  return h("div.legend", null, [["running", "runs"], ["done", "complete"], ["error", "failed"], ["cancelled", "cancelled"], ["interrupted", "interrupted, lost"]].map(([look, said]) => h("span.gantt-key", { "data-look": look }, said)));
}

/** @param {any} task */
const waits = (task) => WAIT.includes(task.state);

/** Whether a task that had run has to wait again. @param {import("../stream.js").Event} event */
const isBack = (event) => event.attempt > 0 && WAIT.includes(event.event);

/** Tasks that run, or have. @param {AbortSignal} signal */
async function ran(signal) {
  /** @type {any[]} */
  const found = [];
  const away = {};
  let cursor = null;
  do {
    const page = await get("v1/tasks", { state: RUN, limit: 500, brief: true, cursor, partial: true }, { signal });
    found.push(...page.tasks);
    Object.assign(away, page.away);
    cursor = page.next;
  } while (cursor && found.length < MOST);
  return { tasks: found, away };
}

/** Tasks that have run before and wait now: the newest, and those that came back lately, however many are before them. @param {AbortSignal} signal */
async function waiting(signal) {
  const back = [...new Set(recentEvents().filter(isBack).map((event) => event.id))].slice(-ATTEMPTS);
  const pages = await Promise.all([
    get("v1/tasks", { state: WAIT, limit: WAITING, brief: true, partial: true }, { signal }),
    back.length ? get("v1/tasks", { id: back, state: WAIT, limit: ATTEMPTS, brief: true, partial: true }, { signal }) : { tasks: [] },
  ]);
  return { tasks: pages.flatMap((page) => page.tasks).filter((task) => task.attempt > 0), away: leftOut(...pages) };
}

/** @param {any} task */
const likeNow = (task) => `${task.attempt} ${waits(task)}`;

/** Ask for the attempts that no task's own record tells, some at a time; the rest with the next look. @param {any[]} tasks @param {Map<string, Known>} known @param {AbortSignal} signal */
async function learnAttempts(tasks, known, signal) {
  const wanted = tasks.filter((task) => task.attempt > (waits(task) ? 0 : 1) && known.get(task.id)?.when !== likeNow(task)).slice(0, ATTEMPTS);
  for (let at = 0; at < wanted.length; at += 4) {
    await Promise.all(wanted.slice(at, at + 4).map(async (task) => {
      const { attempts } = await get(taskPath(task.id, "attempts"), {}, { signal });
      known.set(task.id, { when: likeNow(task), attempts });
    }));
  }
}

/** Attempts that are over, each like a task that has ended; the last one of a task that does not wait is told by its own record. @param {any[]} tasks @param {Map<string, Known>} known */
const attemptsOf = (tasks, known) => tasks.flatMap((task) => (known.get(task.id)?.attempts ?? []).filter((each) => (waits(task) ? each.ending : each.attempt < task.attempt))
  .map((each) => ({ ...task, ...each, finished_at: each.finished_at ?? each.started_at, state: ENDED[/** @type {keyof typeof ENDED} */ (each.ending)] ?? "failed", paused: false })));

/** Put the tasks of each node into as few rows as they fit. @param {any[]} tasks @param {number} from @param {number} to @returns {Lane[]} */
function laid(tasks, from, to) {
  /** @type {Map<string, Bar[]>} */
  const nodes = new Map();
  for (const task of tasks) {
    const begun = seconds(task.started_at);
    const ended = seconds(task.finished_at) ?? now();
    if (begun === null || ended < from || begun > to) continue;
    const look = { complete: "done", failed: "error", cancelled: "cancelled", interrupted: "interrupted" }[/** @type {string} */ (task.state)] ?? (task.paused ? "paused" : "running");
    const name = task.node ?? "unknown";
    if (!nodes.has(name)) nodes.set(name, []);
    nodes.get(name)?.push({ task, from: begun, to: ended, row: 0, look });
  }
  return [...nodes].sort((a, b) => a[0].localeCompare(b[0])).map(([node, bars]) => {
    /** @type {number[]} */
    const free = [];
    for (const bar of bars.sort((a, b) => a.from - b.from)) {
      const row = free.findIndex((until) => until <= bar.from);
      bar.row = row < 0 ? free.length : row;
      free[bar.row] = bar.to;
    }
    return { node, rows: Math.max(1, free.length), bars };
  });
}

/** @param {Lane} lane @param {number} y @param {(at: number) => number} x @param {number} width @param {number} from @param {number} to */
function laneDrawing(lane, y, x, width, from, to) {
  return s("g", { transform: `translate(0 ${y})` },
    s("rect.lane-back", { x: x(from), y: -4, width: Math.max(0, width - x(from)), height: lane.rows * ROW + 6, rx: 6 }),
    s("text.lane-name", { x: 0, y: x(from) ? ROW / 2 + 3 : -8 }, clean(lane.node, x(from) ? 15 : 40)),
    lane.bars.map((bar) => {
      const left = x(Math.max(bar.from, from));
      const wide = Math.max(2, x(Math.min(bar.to, to)) - left - 1);
      const name = nameOf(bar.task, 40);
      return s("a", { href: href("task", bar.task.id), tabindex: -1 },
        s("rect.piece", { x: left, y: bar.row * ROW, width: wide, height: ROW - 4, rx: Math.min(4, wide / 2), "data-look": bar.look },
          s("title", null, `${name} (${clean(bar.task.id, 40)}), ${bar.task.state}, ${duration(bar.to - bar.from)}, from ${exactClock(bar.from)}`)),
        wide > 40 ? s("text.piece-label", { x: left + 6, y: bar.row * ROW + 13, "data-look": bar.look }, clean(kind(bar.task) || name, Math.max(3, Math.floor((wide - 8) / 6.6)))) : null);
    }));
}

/** @param {number} from @param {number} to @param {(at: number) => number} x @param {number} height */
function axis(from, to, x, height) {
  const group = s("g.grid");
  for (const { at, label } of timeTicks(from, to, Math.max(2, Math.floor((x(to) - x(from)) / 70)))) {
    group.append(s("line", { x1: x(at), x2: x(at), y1: HEAD - 8, y2: height }),
      s("text", { x: x(at), y: 12, "text-anchor": x(at) - x(from) < 20 ? "start" : x(to) - x(at) < 20 ? "end" : "middle" }, label));
  }
  return group;
}
