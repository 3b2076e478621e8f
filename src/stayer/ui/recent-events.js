// What happened lately: the newest events, read once from the store, then kept up by the stream.

import { get } from "./api.js";
import { now, seconds } from "./format.js";
import { on } from "./stream.js";

const PORTION = 100;
const MOST = 6000;
const BACK = 300; // seconds: what is older, the store has counted

/** @typedef {import("./stream.js").Event & {time: number}} Known */

/** @type {Known[]} oldest first */
let events = [];
/** @type {Promise<void> | null} */
let loading = null;

/** @returns {Known[]} */
export const recentEvents = () => events;

/** @param {any} event @returns {Known} */
const dated = (event) => ({ ...event, time: seconds(event.at) ?? 0 });

on("event", (event) => {
  if (!events.length || event.number > events[events.length - 1].number) events.push(dated(event));
  if (events.length > MOST * 1.5) events = events.slice(-MOST);
});
on("up", ({ again }) => {
  if (again) loading = read().catch(() => {}); // some may have been missed
});

const readers = new EventTarget();
const step = () => readers.dispatchEvent(new Event("more"));

/**
 * Read the newest ones. `more` is called whenever more is known.
 * @param {() => void} more @param {AbortSignal} signal
 */
export function recall(more, signal) {
  readers.addEventListener("more", more, { signal });
  loading ??= read().catch(() => {
    loading = null; // tried again with the next look
  });
}

async function read() {
  const { last_event: newest } = await get("v1/clock");
  const begin = now() - BACK;
  let upto = newest;
  while (upto > 0 && newest - upto < MOST) {
    const start = Math.max(0, upto - PORTION);
    const page = await get("v1/events", { since: start, limit: PORTION });
    /** @type {Known[]} */
    const found = page.events.map(dated);
    merge(found);
    if (!start || (found.length && found[0].time < begin)) break;
    upto = start;
    step();
  }
  step();
}

/** @param {Known[]} found */
function merge(found) {
  const seen = new Map(events.map((event) => [event.number, event]));
  for (const event of found) seen.set(event.number, event);
  events = [...seen.values()].sort((a, b) => a.number - b.number);
}

/**
 * How many came into each of these states, in steps of time that end now: as the store has counted it where it has, else
 * by the events that are known.
 * @param {string[]} states @param {number} span seconds @param {number} steps
 * @param {Map<number, any>} minutes what the store counted, by the beginning of the minute
 */
export function countByStep(states, span, steps, minutes) {
  const width = span / steps;
  const end = Math.ceil(now() / width) * width;
  const times = Array.from({ length: steps }, (_, index) => end - span + index * width);
  const values = new Map(states.map((state) => [state, new Array(steps).fill(0)]));
  for (let index = events.length - 1; index >= 0; index -= 1) {
    const event = events[index];
    if (event.time < times[0]) break;
    const row = values.get(event.event);
    if (row && !minutes.has(Math.floor(event.time / 60) * 60)) row[Math.min(steps - 1, Math.floor((event.time - times[0]) / width))] += 1;
  }
  for (const [time, point] of minutes) {
    const step = Math.min(steps - 1, Math.floor((time - times[0]) / width));
    if (step >= 0) for (const [state, row] of values) row[step] += point[state];
  }
  return { times, values };
}
