// The frame of the page: which view is shown, its menu, keys, colours, and whether the server is there.

import { begin, maySubmit, remove, who } from "./api.js";
import { COMMANDS } from "./commands.js";
import { attribute, fill, h, text } from "./dom.js";
import { icon } from "./icons.js";
import { begin as beginView, watch } from "./health.js";
import { listen } from "./keys.js";
import { announce, empty, toast } from "./widgets.js";
import { href, place } from "./router.js";
import { forget } from "./session.js";
import { start } from "./stream.js";

/** @typedef {{title: string, open: (main: HTMLElement, place: import("./router.js").Place, signal: AbortSignal) => void}} View */

/** @type {Record<string, {label: string, key?: string, load: () => Promise<View>}>} */
const PAGES = {
  now: { label: "Now", key: "n", load: () => import("./views/now.js") },
  tasks: { label: "Tasks", key: "t", load: () => import("./views/tasks.js") },
  flows: { label: "Flows", key: "o", load: () => import("./views/flows.js") },
  queues: { label: "Queues", key: "q", load: () => import("./views/queues.js") },
  schedules: { label: "Schedules", key: "s", load: () => import("./views/schedules.js") },
  nodes: { label: "Nodes", key: "w", load: () => import("./views/nodes.js") },
  failures: { label: "Failures", key: "f", load: () => import("./views/failures.js") },
  timeline: { label: "Timeline", key: "l", load: () => import("./views/timeline.js") },
  flow: { label: "Flow", load: () => import("./views/flow.js") },
  task: { label: "Task", load: () => import("./views/task.js") },
};

/** On a phone, these are behind a button. */
const SELDOM = ["flows", "schedules", "nodes", "timeline"];

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let leaving = new AbortController();
let shown = "";

/** Show the view that the address names. */
async function open() {
  const here = place();
  const page = Object.hasOwn(PAGES, here.page) ? PAGES[here.page] : undefined;
  const same = `${here.page}/${here.id}`;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  mark(here.page);
  if (!page) {
    document.title = "Stayer";
    return fill(main, empty("There is no such page", "Choose another one above."));
  }
  const view = await page.load();
  if (signal.aborted) return;
  main.className = `view-${here.page}`;
  document.title = `${view.title} · Stayer`;
  fill(main);
  beginView();
  view.open(main, here, signal);
  if (shown && shown !== same) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
    announce(view.title);
  }
  shown = same;
}

function menu() {
  const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));
  const unfold = (/** @type {boolean} */ wanted) => {
    attribute(nav, "data-open", wanted);
    attribute(more, "aria-expanded", String(wanted));
  };
  const more = h("button.nav-more", { type: "button", onclick: () => unfold(!nav.hasAttribute("data-open")) }, icon("more"), h("span", null, "More"));
  unfold(false);
  const links = Object.entries(PAGES).filter(([, page]) => page.key).map(([name, page]) =>
    h("a", { href: href(name), "data-page": name, "data-seldom": SELDOM.includes(name), "aria-keyshortcuts": `g ${page.key}`, onclick: () => unfold(false) },
      icon(/** @type {import("./icons.js").Icon} */ (name)), h("span", null, page.label)));
  fill(nav, links, more);
}

/** @param {string} page */
function mark(page) {
  for (const link of document.querySelectorAll("#nav a")) {
    const here = /** @type {HTMLElement} */ (link).dataset.page === ({ task: "tasks", flow: "flows" }[page] ?? page);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function colours() {
  const button = /** @type {HTMLElement} */ (document.getElementById("theme"));
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark")) === "dark";
  const draw = () => {
    fill(button, icon(dark() ? "sun" : "moon"));
    button.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
    button.title = dark() ? "Light colours" : "Dark colours";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem("stayer-theme", root.dataset.theme);
    } catch {
      // Not remembered, then.
    }
    draw();
  });
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", draw);
  draw();
}

/** Say whether what is shown is so now, and if not, why and as of when. */
function connection() {
  const state = /** @type {HTMLElement} */ (document.getElementById("link-state"));
  const trouble = /** @type {HTMLElement} */ (document.getElementById("trouble"));
  let before = "";
  watch(({ mood, word, sentence, old, unknown, whose }) => {
    attribute(state, "data-mood", mood);
    text(state, word);
    attribute(state, "title", sentence || null);
    trouble.hidden = !sentence;
    attribute(trouble, "data-mood", mood);
    text(trouble, sentence);
    attribute(document.documentElement, "data-figures", unknown ? "unknown" : old ? "old" : null);
    if (before && !old && mood !== "wait") toast(before === "view" ? "This page is live again." : `The ${before} is back: this page is live again.`);
    if (old) before = whose === "view" ? before || whose : whose;
    else if (mood !== "wait") before = "";
  });
}

function submitting() {
  const button = /** @type {HTMLElement} */ (document.getElementById("submit"));
  fill(button, icon("add"), h("span", null, "Submit"));
  button.hidden = !maySubmit();
  button.addEventListener("click", async () => (await import("./task-form.js")).submit());
}

function session() {
  const button = /** @type {HTMLElement} */ (document.getElementById("who"));
  const me = who();
  fill(button, icon("person"));
  button.title = `${me?.name}, role ${me?.role}`;
  button.setAttribute("aria-label", `Session of ${me?.name}, role ${me?.role}`);
  button.addEventListener("click", async () => (await import("./dialogs.js")).ask({
    heading: "Log out?",
    sentence: `You are here as “${me?.name}” with the role ${me?.role}. To come back you need a login link (${COMMANDS.link}) or a token.`,
    button: "Log out",
    act: async () => {
      await remove("v1/session");
      forget();
      location.assign("login");
    },
  }));
}

menu();
colours();
fill(/** @type {HTMLElement} */ (document.getElementById("help")), icon("help"));
connection();
if (Object.hasOwn(PAGES, place().page)) PAGES[place().page].load(); // while the server says who looks
await begin().catch((error) => fill(main, empty("The server does not answer", error.message)));
session();
submitting();
start();
listen(Object.fromEntries(Object.entries(PAGES).filter(([, page]) => page.key).map(([name, page]) => [page.key, href(name)])));
addEventListener("hashchange", open);
open();
