// All tasks: filtered by the server, page by page; only the rows in sight exist.

import { get, mayOperate, Problem } from "../api.js";
import { bulk } from "../bulk.js";
import { COMMANDS } from "../commands.js";
import { attribute, fill, h, text } from "../dom.js";
import { age, clean, clock, count, duration, lasted, many, seconds, title as nameOf } from "../format.js";
import { inOneLine } from "../value.js";
import { answered, failed, forget, leftOut } from "../health.js";
import { icon } from "../icons.js";
import { AGAIN, everySecond, live } from "../live.js";
import { badge, empty, progressBar, setBadge, setTime, standing, toast } from "../widgets.js";
import { href, rewrite } from "../router.js";
import { on } from "../stream.js";
import { virtual } from "../virtual.js";

export const title = "Tasks";

const STATES = ["pending", "scheduled", "waiting", "reserved", "started", "complete", "failed", "cancelled"];
const SEARCH = ["q", "Search id, name, command, parameters, tags, meta, error"];
const FIELDS = [
  ["name", "Kind"], ["owner", "Owner"], ["tag", "Tag"], ["meta", "Meta (name=value)", "Meta a=b"], ["where", "Parameter (name=value)", "Param a=b"], ["flow", "Flow"], ["fingerprint", "Fingerprint"], ["since", "Since (2h, 7d)", "Since 2h"],
];
/** What the counts of the queues know of. */
const COUNTED = ["queue", "state"];
const PAGE = 200;
const NOTHING = { tasks: [], next: null };
const KINDS = "kinds";
const MOST_KINDS = 50;
/** So many ids are kept of tasks that came; who has more wants to see the list. */
const MOST_NEWS = 10_000;

/** @param {HTMLElement} main @param {import("../router.js").Place} place @param {AbortSignal} signal */
export function open(main, place, signal) {
  const filter = new URLSearchParams(place.query);
  /** @type {any[]} */
  let tasks = [];
  /** @type {Map<string, number>} */
  let known = new Map();
  /** @type {string | null} */
  let next = null;
  let loading = false;
  /** Which filter the list is of; null: of none. @type {string | null} */
  let shown = null;
  let isPart = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let again;
  /** Those that came since the list was read. @type {Set<string>} */
  const news = new Set();
  let turn = 0;
  /** @type {Set<string>} */
  const selected = new Set();

  const rows = h("div.task-rows", { role: "list", "aria-label": "Tasks", "data-list": true });
  const status = h("span.quiet", { role: "status" });
  const fresh = h("button.button.small.primary", { type: "button", hidden: true, onclick: () => load() });
  const none = h("div");
  const filters = bar(filter, changed, signal);
  const actions = mayOperate() ? bulk(() => ({ filter: query(filter), selected, matching: tasks.length, more: next !== null }), () => load()) : null;
  fill(main, h("h1.unseen", null, "Tasks"), filters.node,
    h("div.list-tools", null, status, fresh, h("span.grow"), actions?.node ?? null),
    h("section.card.list-card", { "aria-label": "Tasks" },
      h("div.task-row.task-row-head", { "aria-hidden": "true" }, h("span"), ["State", "Task", "Queue", "Owner", "Progress", "Submitted", "Took"].map((each) => h("span", null, each))),
      rows, none));

  const narrow = matchMedia("(max-width: 900px)");
  const list = virtual(document.documentElement, rows, {
    height: narrow.matches ? 74 : 46,
    make: (index) => row(tasks[index], selected, () => actions?.update()),
    shown: (last) => {
      if (next && !loading && last > tasks.length - 60) more();
    },
  });
  narrow.addEventListener("change", () => list.setHeight(narrow.matches ? 74 : 46), { signal });
  signal.addEventListener("abort", () => list.stop());

  function changed() {
    selected.clear();
    rewrite(href("tasks", "", filter));
    load();
  }

  /** @param {{tasks: any[], next: string | null, away?: Record<string, string>}} page @param {string | null} asked @param {string} [problem] */
  function show(page, asked, problem) {
    [tasks, next, shown] = [page.tasks, page.next, asked];
    isPart = Object.keys(leftOut(page)).length > 0;
    known = new Map(tasks.map((task, index) => [task.id, index]));
    list.clear();
    drawn(problem);
  }

  async function load() {
    const mine = (turn += 1);
    const before = [...news];
    const asked = filter.toString();
    loading = true;
    clearTimeout(again);
    try {
      const page = await get("v1/tasks", { ...query(filter), limit: PAGE, brief: true, partial: true }, { signal });
      if (mine !== turn) return;
      // One that came while the list was under way may be in it, or not.
      for (const id of [...before, ...page.tasks.map((/** @type {any} */ task) => task.id)]) news.delete(id);
      show(page, asked);
      offerKinds();
      answered(rows, page.away);
      loading = false;
      searchOn();
    } catch (thrown) {
      if (signal.aborted || mine !== turn) return;
      const error = /** @type {Error} */ (thrown);
      if (error instanceof Problem && error.status < 500) {
        show(NOTHING, asked, error.message);
        answered(rows);
      } else {
        if (shown !== asked) show(NOTHING, null); // else it stays, as of then
        failed(rows, error);
        again = setTimeout(load, AGAIN);
      }
    } finally {
      if (mine === turn) loading = false;
    }
  }

  async function more() {
    const mine = turn;
    loading = true;
    try {
      const page = await get("v1/tasks", { ...query(filter), limit: PAGE, brief: true, partial: true, cursor: next }, { signal });
      if (mine !== turn) return;
      for (const task of page.tasks) {
        if (known.has(task.id)) continue;
        known.set(task.id, tasks.length);
        tasks.push(task);
      }
      next = page.next;
      drawn();
    } catch (error) {
      if (!signal.aborted) toast(/** @type {Error} */ (error).message, "bad");
      return;
    } finally {
      loading = false;
    }
    searchOn();
  }

  /** A page of a search may have found little, though there is more to look at. */
  function searchOn() {
    if (next && tasks.length < PAGE && !signal.aborted) more();
  }

  /** What runs is searched for by its whole name: offer those that are there. */
  function offerKinds() {
    const kinds = [...new Set(tasks.map((task) => task.name || task.command?.[0]).filter(Boolean))].sort().slice(0, MOST_KINDS);
    const place = document.getElementById(KINDS);
    const known = new Set([...(place?.children ?? [])].map((each) => each.getAttribute("value")));
    for (const each of kinds) if (!known.has(each) && known.size < MOST_KINDS) place?.append(h("option", { value: each }));
  }

  /** @param {string} [problem] */
  function drawn(problem) {
    list.setTotal(tasks.length);
    text(status, shown === null ? "not known" : !next ? many(tasks.length, "task") : tasks.length < PAGE ? `${many(tasks.length, "task")} so far, still searching …` : `the newest ${count(tasks.length)}, more below`);
    filters.count(tasks, next === null && shown !== null);
    fresh.hidden = !news.size;
    text(fresh, news.size < MOST_NEWS ? `${many(news.size, "new task")}: show` : "Many new tasks: show");
    fill(none, problem ? empty("This filter is not valid", problem) : tasks.length || isPart || shown === null ? null
      : [...filter.keys()].length ? empty("Nothing matches", filter.get("name") ? "Give the whole name of a kind, or remove a filter." : "Remove a filter, or look in another queue.")
        : empty("No tasks yet", "The first one makes its queue.", COMMANDS.run));
    actions?.update();
  }

  // What is shown follows the events; what is new waits to be asked for, because rows must not move.
  /** @type {Set<string>} */
  const stale = new Set();
  on("event", (event) => {
    if (known.has(event.id)) stale.add(event.id);
    else if (news.size < MOST_NEWS && isNew(event, filter)) news.add(event.id);
  }, signal);
  everySecond(signal, async () => {
    if (news.size) drawn();
    for (const task of tasks) if (task.state === "started" && list.row(known.get(task.id) ?? -1)) stale.add(task.id);
    const ids = [...stale].filter((id) => list.row(known.get(id) ?? -1)).slice(0, 60);
    for (const id of stale) if (!list.row(known.get(id) ?? -1)) stale.delete(id);
    if (!ids.length || loading) return;
    ids.forEach((id) => stale.delete(id));
    const mine = turn;
    const page = await get("v1/tasks", { id: ids, limit: 100, brief: true, partial: true }, { signal }).catch(() => null);
    if (!page || mine !== turn) return;
    for (const task of page.tasks) {
      const index = known.get(task.id) ?? -1;
      tasks[index] = task;
      /** @type {any} */ (list.row(index))?.show(task);
    }
  });
  document.addEventListener("stayer:refresh", () => load(), { signal });
  on("up", (detail) => detail.again && load(), signal);
  signal.addEventListener("abort", () => {
    clearTimeout(again);
    forget(rows);
  });
  load();
}

/** Whether a task has come that this list may want. @param {import("../stream.js").Event} event @param {URLSearchParams} filter */
function isNew(event, filter) {
  const queues = filter.getAll("queue");
  return event.id && !event.attempt && ["pending", "scheduled", "waiting"].includes(event.event)
    && (!queues.length || queues.includes(event.queue));
}

/** The filter as the API takes it. @param {URLSearchParams} filter */
function query(filter) {
  /** @type {Record<string, string[]>} */
  const asked = {};
  for (const [name, value] of filter) (asked[name] ??= []).push(value);
  return asked;
}

/** @param {URLSearchParams} filter @param {() => void} changed @param {AbortSignal} signal */
function bar(filter, changed, signal) {
  const counts = STATES.map(() => h("b"));
  const states = STATES.map((state, index) => {
    const button = h("button.chip-button", { type: "button", "data-state": state, "aria-pressed": String(filter.getAll("state").includes(state)) }, state, counts[index]);
    button.addEventListener("click", () => {
      const chosen = new Set(filter.getAll("state"));
      if (!chosen.delete(state)) chosen.add(state);
      filter.delete("state");
      for (const each of chosen) filter.append("state", each);
      button.setAttribute("aria-pressed", String(chosen.has(state)));
      changed();
    });
    return button;
  });
  const queue = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Queue" }, h("option", { value: "" }, "All queues")));
  const offer = (/** @type {string} */ name) => queue.append(h("option", { value: name }, clean(name, 40)));
  if (filter.get("queue")) offer(filter.get("queue") ?? "");
  queue.value = filter.get("queue") ?? "";
  /** @type {any[]} */
  let queues = [];
  /** Where more is asked for than queues count: how many of the list are in each state, if that is known. @type {Map<string, number> | null} */
  let listed = null;
  const number = () => STATES.forEach((state, index) => {
    if ([...filter.keys()].some((name) => !COUNTED.includes(name))) {
      const chosen = filter.getAll("state");
      return text(counts[index], listed && (!chosen.length || chosen.includes(state)) ? count(listed.get(state) ?? 0) : "");
    }
    text(counts[index], queues.length
      ? count(queues.filter((each) => !filter.get("queue") || each.name === filter.get("queue")).reduce((sum, each) => sum + each.counts[state], 0)) : "");
  });
  live(signal, async (stop) => {
    const found = await get("v1/queues", { partial: true }, { signal: stop });
    queues = found.queues;
    const known = new Set([.../** @type {any} */ (queue.options)].map((each) => each.value));
    for (const each of queues) if (!known.has(each.name)) offer(each.name);
    number();
    return leftOut(found);
  }, { interval: 5, matters: () => true });
  queue.addEventListener("change", () => {
    filter.delete("queue");
    if (queue.value) filter.set("queue", queue.value);
    number();
    changed();
  });
  const [search, ...fields] = [SEARCH, ...FIELDS].map(([name, label, short]) => {
    const input = /** @type {HTMLInputElement} */ (h("input", { type: "search", "aria-label": label, title: label, placeholder: short ?? label, value: filter.get(name) ?? "", "data-search": name === "q", autocomplete: "off", spellcheck: "false", list: name === "name" ? KINDS : null }));
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (input.value.trim()) filter.set(name, input.value.trim());
        else filter.delete(name);
        changed();
      }, 350);
    });
    return input;
  });
  const clear = h("button.button.small", { type: "button", onclick: () => {
    for (const name of [...filter.keys()]) filter.delete(name);
    states.forEach((each) => each.setAttribute("aria-pressed", "false"));
    [search, ...fields].forEach((each) => (each.value = ""));
    queue.value = "";
    number();
    changed();
  } }, icon("cancel"), "Clear");
  const rest = h("div.filter-fields", { id: "filter-fields" }, queue, fields, h("datalist", { id: KINDS }), clear);
  const open = h("button.button.small.filter-open", { type: "button", "aria-controls": "filter-fields", onclick: () => unfold(!rest.hasAttribute("data-open")) }, icon("set"), "Filter");
  const unfold = (/** @type {boolean} */ wanted) => {
    attribute(rest, "data-open", wanted);
    attribute(open, "aria-expanded", String(wanted));
  };
  unfold([...filter.keys()].some((name) => !["state", "q"].includes(name)));
  const node = h("form.filter", { role: "search", "aria-label": "Filter the tasks", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("div.search-line", null, icon("search"), search), h("div.chip-line", null, h("div.chip-buttons", null, states), open), rest);
  return {
    node,
    /** Count what the list shows. @param {any[]} tasks @param {boolean} isAll */
    count(tasks, isAll) {
      listed = isAll ? new Map() : null;
      for (const task of tasks) listed?.set(task.state, (listed.get(task.state) ?? 0) + 1);
      number();
    },
  };
}

/** @param {any} first @param {Set<string>} selected @param {() => void} chosen */
function row(first, selected, chosen) {
  const tick = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", "aria-label": `Select ${clean(first.id, 40)}` }));
  tick.checked = selected.has(first.id);
  tick.addEventListener("change", () => {
    if (tick.checked) selected.add(first.id);
    else selected.delete(first.id);
    chosen();
  });
  const state = badge(first.state);
  const name = h("a", { href: href("task", first.id) });
  const values = h("span.r-values");
  const under = h("div.under");
  const progress = progressBar();
  const submitted = h("time");
  const took = h("span.took");
  const node = h("div.task-row", { role: "listitem", "data-row": true }, mayOperate() ? tick : h("span"), h("span.r-state", null, state), h("div.r-name", null, h("div.task-title", null, name, values), under),
    h("span.r-queue", null, clean(first.queue, 30)), h("span.r-owner.quiet", null, clean(first.owner ?? "", 24)), h("div.r-progress", null, progress.node), submitted, took);
  const show = (/** @type {any} */ task) => {
    setBadge(state, standing(task));
    text(name, nameOf(task, 200));
    text(values, task.parameters === null ? "" : inOneLine(task.parameters));
    text(under, detail(task));
    progress.update(task);
    setTime(submitted, task.created, `${duration(age(task.created))} ago`);
    text(took, duration(lasted(task)));
  };
  show(first);
  /** @type {any} */ (node).show = show;
  return node;
}

/** What is said of a task below its name. @param {any} task */
function detail(task) {
  const parts = [clean(task.id, 40)];
  if (task.attempt > 1) parts.push(`attempt ${task.attempt}`);
  if (task.state === "scheduled" && task.eta) parts.push(`due ${clock(seconds(task.eta) ?? 0)}`);
  const again = !["complete", "cancelled", "failed"].includes(task.state) && task.failures;
  if (again) parts.push(task.failures === 1 ? "failed before" : `failed ${count(task.failures)} times before`);
  if ((task.state === "failed" || again) && task.error) parts.push(clean(`${task.error.type}: ${task.error.message}`, 120));
  if (task.state === "complete" && task.result !== null) parts.push(`→ ${inOneLine(task.result)}`);
  if (task.state === "started" && task.progress?.message) parts.push(clean(task.progress.message, 80));
  return parts.join(" · ");
}
