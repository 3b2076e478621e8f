// What the queues did, as the store has counted it: it survives servers, and all who look at pages.

import { get } from "./api.js";
import { live } from "./live.js";
import { now, seconds } from "./format.js";

/** @typedef {{at: string, time: number, queue: string | null, depth: number | null, running: number | null, age: number | null, submitted: number, complete: number, failed: number, cancelled: number}} Figures */

/** @param {any} answer @returns {Figures[]} */
const dated = (answer) => answer.history.points.map((/** @type {any} */ point) => ({ ...point, time: seconds(point.at) ?? 0 }));

const NOTHING = { complete: 0, failed: 0, cancelled: 0 };

/**
 * The figures of all queues together by the beginning of each minute that was counted, and how many failed since midnight;
 * read again each minute. Further back five minutes are one, and the other four are nothing.
 * @param {AbortSignal} signal @param {number} hours @param {(minutes: Map<number, Figures>, failed: number) => void} changed
 */
export function minutes(signal, hours, changed) {
  live(signal, async (stop) => {
    const ask = async (/** @type {any} */ asked) => dated(await get("v1/stats", { ...asked, partial: true }, { signal: stop }));
    const edge = Math.floor((now() - 900) / 300) * 300;
    const [before, lately, today] = await Promise.all([ask({ since: `${hours}h`, until: moment(edge), step: "5m" }), ask({ since: moment(edge), step: "1m" }), ask({ since: moment(midnight()), step: midnight() % 3600 ? "15m" : "1h" })]);
    const found = new Map(lately.map((point) => [point.time, point]));
    for (const point of before) [point, NOTHING, NOTHING, NOTHING, NOTHING].forEach((each, minute) => found.set(point.time + minute * 60, /** @type {any} */ (each)));
    changed(found, today.reduce((sum, point) => sum + point.failed, 0));
  }, { interval: 60 });
}

const moment = (/** @type {number} */ at) => new Date(at * 1000).toISOString();

/** When today began, here. */
export const midnight = () => new Date(now() * 1000).setHours(0, 0, 0, 0) / 1000;

/** How far back, in hours, and in steps of how many minutes; the shorter while there is little to tell. */
const LONG = [24, 15];
const SHORT = [1, 1];
const LITTLE = 5;
/** So many steps are shown at least, also if nothing was counted then. */
const FEWEST = 10;

/**
 * Depth and age of each queue over the last hours. Where somebody counted and a queue is not told of, it was at rest.
 * @param {AbortSignal} signal
 * @param {(times: number[], of: (queue: string) => (Figures | null | undefined)[]) => void} changed
 */
export function depths(signal, changed) {
  live(signal, async (stop) => {
    const far = dated(await get("v1/stats", { since: `${LONG[0]}h`, step: `${LONG[1]}m`, partial: true }, { signal: stop }));
    const [hours, step] = far.length < LITTLE ? SHORT : LONG;
    const asked = { since: `${hours}h`, step: `${step}m`, partial: true };
    const whole = hours === LONG[0] ? far : dated(await get("v1/stats", asked, { signal: stop }));
    const each = dated(await get("v1/stats", { ...asked, each: true }, { signal: stop }));
    const end = Math.floor(Date.now() / 1000 / (step * 60)) * step * 60;
    const all = Array.from({ length: (hours * 60) / step }, (_, index) => end - (hours * 3600) + (index + 1) * step * 60);
    const counted = new Set(whole.map((point) => point.time));
    const first = all.findIndex((time) => counted.has(time));
    const times = all.slice(Math.min(first < 0 ? all.length : first, all.length - FEWEST));
    const known = new Map(each.map((point) => [`${point.time} ${point.queue}`, point]));
    changed(times, (queue) => times.map((time) => (counted.has(time) ? known.get(`${time} ${queue}`) ?? null : undefined)));
  }, { interval: 60 });
}
