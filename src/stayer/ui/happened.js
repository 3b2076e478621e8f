// What happened lately: the newest events, read once from the store, then kept up by the stream.

import { get } from "./api.js";
import { now, seconds } from "./format.js";
import { on } from "./stream.js";

const PORTION = 500;
const MOST = 6000;

/** @typedef {import("./stream.js").Event & {time: number}} Known */

/** @type {Known[]} oldest first */
let events = [];
/** Everything since then is known. */
let since = Infinity;
/** @type {Promise<void> | null} */
let loading = null;

/** @returns {Known[]} */
export const happened = () => events;

/** The time from which on all events are known. */
export const knownSince = () => since;

/** @param {any} event @returns {Known} */
const dated = (event) => ({ ...event, time: seconds(event.at) ?? 0 });

on("event", (event) => {
  if (!events.length || event.number > events[events.length - 1].number) events.push(dated(event));
  if (events.length > MOST * 1.5) {
    events = events.slice(-MOST);
    since = events[0].time;
  }
});
on("up", ({ again }) => {
  if (again) loading = read(1).catch(() => {}); // some may have been missed
});

const readers = new EventTarget();
const step = () => readers.dispatchEvent(new Event("more"));

/**
 * Read back `hours`, or as far as is reasonable. `more` is called whenever more is known.
 * @param {number} hours @param {() => void} more @param {AbortSignal} signal
 */
export function recall(hours, more, signal) {
  readers.addEventListener("more", more, { signal });
  loading ??= read(hours).catch(() => {
    loading = null; // tried again with the next look
  });
}

/** @param {number} hours */
async function read(hours) {
  const { last_event: newest } = await get("v1/clock");
  const begin = now() - hours * 3600;
  let upto = newest;
  since = now();
  while (upto > 0 && newest - upto < MOST) {
    const start = Math.max(0, upto - PORTION);
    const page = await get("v1/events", { since: start, limit: PORTION });
    /** @type {Known[]} */
    const found = page.events.map(dated);
    merge(found);
    if (found.length) since = Math.min(since, found[0].time);
    if (!start || (found.length && found[0].time < begin)) {
      if (!start) since = 0;
      break;
    }
    upto = start;
    step();
  }
  if (!upto) since = 0;
  step();
}

/** @param {Known[]} found */
function merge(found) {
  const seen = new Map(events.map((event) => [event.number, event]));
  for (const event of found) seen.set(event.number, event);
  events = [...seen.values()].sort((a, b) => a.number - b.number);
}

/**
 * How many came into each of these states, in steps of time that end now.
 * @param {string[]} states @param {number} span seconds @param {number} steps
 */
export function counted(states, span, steps) {
  const width = span / steps;
  const end = Math.ceil(now() / width) * width;
  const times = Array.from({ length: steps }, (_, index) => end - span + index * width);
  const values = new Map(states.map((state) => [state, new Array(steps).fill(0)]));
  for (let index = events.length - 1; index >= 0; index -= 1) {
    const event = events[index];
    if (event.time < times[0]) break;
    const row = values.get(event.event);
    if (row) row[Math.min(steps - 1, Math.floor((event.time - times[0]) / width))] += 1;
  }
  return { times, values };
}
