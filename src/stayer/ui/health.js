// Whether what the page shows is so now: which answers failed and since when, which queues are left out, and as of when the rest is.

import { clean, clock, exactClock, freeze, now, seconds } from "./format.js";
import { isUp, on, silence } from "./stream.js";

/** @typedef {{since: number, said: string, kind: string}} Failure `since` by the clock of this machine, which goes on */
/** @typedef {{mood: "good" | "warn" | "bad" | "wait", word: string, sentence: string, old: boolean, unknown: boolean, whose: string}} Health */

const GOES_ON = "Running tasks are not lost: they go on. If a worker's lease ends before the store is back, its tasks are frozen until then.";
const NAMED = 5;
/** @type {Record<string, string>} */
const WORDS = { server: "no answer, trying again", store: "store away", view: "no answer to this" };

const moment = () => Date.now() / 1000;

/** What of the view that is shown could not be read. @type {Map<object, Failure>} */
const failing = new Map();
/** Which queues answers had to leave out, and why. @type {Map<object, Record<string, string>>} */
const left = new Map();
/** When this view was last answered. @type {number | null} */
let answeredAt = null;
/** Whether any view was. */
let isKnown = false;
/** When the server stopped to answer. */
let downSince = 0;
/** Whether there were answers since the server said that the store is silent. */
let answeredSince = false;

/** @type {(health: Health) => void} */
let tell = () => {};

/** Be told of every change. @param {(health: Health) => void} listener */
export function watch(listener) {
  tell = listener;
  for (const what of /** @type {const} */ (["up", "down", "away"])) {
    on(what, () => {
      if (what === "down") downSince = moment();
      if (what === "away") answeredSince = false;
      changed();
    });
  }
  changed();
}

/** Another view is shown. */
export function begin() {
  answeredAt = null;
  changed();
}

/** It could be read, but for these queues; whether something was wrong before. @param {object} load @param {Record<string, string>} [away] */
export function answered(load, away) {
  const before = health().old;
  freeze(null);
  answeredAt = now();
  isKnown = answeredSince = true;
  failing.delete(load);
  if (away && Object.keys(away).length) left.set(load, away);
  else left.delete(load);
  changed();
  return before;
}

/** It could not. @param {object} load @param {Error & {kind?: string}} error */
export function failed(load, error) {
  failing.set(load, { since: failing.get(load)?.since ?? moment(), said: error.message, kind: error.kind ?? "" });
  changed();
}

/** Nobody wants to know any more. @param {object} load */
export function forget(load) {
  failing.delete(load);
  left.delete(load);
  changed();
}

/** The queues that any of these answers leaves out. @param {...{away?: Record<string, string>}} answers @returns {Record<string, string>} */
export const leftOut = (...answers) => Object.assign({}, ...answers.map((each) => each.away));

function changed() {
  const found = health();
  // Clocks that count from old figures would tell what nobody knows.
  freeze(found.old ? answeredAt ?? now() : null);
  tell(found);
}

/** @returns {Health} */
function health() {
  const [trouble, whose] = wrong();
  if (trouble) {
    const below = answeredAt === null ? "Nothing can be shown until then." : `What is below is as of ${exactClock(answeredAt)}.`;
    return { mood: "bad", word: WORDS[whose], sentence: `${trouble} ${GOES_ON} ${below}`, old: true, unknown: answeredAt === null, whose };
  }
  const fine = { sentence: "", old: false, unknown: false, whose: "" };
  const away = Object.assign({}, ...left.values());
  const names = Object.keys(away).sort();
  const part = names.length ? `${partSaid(names)}: ${sentence(away[names[0]])} ` : "";
  const unheard = silence() ? `What happens is not told as it happens, but asked for every few seconds: ${sentence(silence()?.said)}` : "";
  if (part || unheard) return { ...fine, mood: "warn", word: unheard ? "not live" : "live, in part", sentence: (part + unheard).trim() };
  return isUp() ? { ...fine, mood: "good", word: "live" } : { ...fine, mood: "wait", word: "connecting" };
}

/** What is wrong, and with whom. @returns {[string, string]} */
function wrong() {
  if (isUp() === false) return [`The server does not answer since ${clock(downSince)}.`, "server"];
  const [first] = [...failing.values()].sort((a, b) => a.since - b.since);
  const missed = first?.kind.startsWith("store-");
  // An answer that was on its way when the store went is no proof against what failed since.
  const told = answeredSince && !missed ? null : silence();
  // While events are told the store is there, and a part of it may be away.
  if (told || (missed && !isUp())) {
    const since = seconds(told?.since) ?? (isKnown ? first?.since : null);
    return [`The store does not answer${since ? ` since ${clock(since)}` : ""}: ${sentence(told?.said ?? first?.said)}`, "store"];
  }
  return first ? [`This can't be read since ${clock(first.since)}: ${sentence(first.said)}`, "view"] : ["", ""];
}

/** @param {string | undefined} said */
const sentence = (said) => clean(said, 300).replace(/([^.!?…])$/, "$1.");

/** @param {string[]} names */
function partSaid(names) {
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  const one = names.length === 1;
  return `Queue${one ? "" : "s"} ${names.slice(0, NAMED).map((name) => clean(name, 40)).join(", ")}${more} can't be reached, and nothing of ${one ? "it" : "them"} is shown`;
}
