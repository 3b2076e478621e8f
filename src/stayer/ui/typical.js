// How long tasks of a kind usually take: from those that have finished.

import { get } from "./api.js";
import { kind, seconds } from "./format.js";

const FRESH = 300_000;
const SAMPLE = 11;
const MANY = 200; // of a program that may run anything

/** @typedef {{median: number, most: number, sample: number} | null} Usual */

/** @type {Map<string, {usual: Usual, asked: number}>} */
const known = new Map();

/** @param {any} task */
const key = (task) => `${task.queue}\n${kind(task)}`;

/** What is known by now. @param {any} task @returns {Usual} */
export const typicalRun = (task) => known.get(key(task))?.usual ?? null;

/** Find out about the kinds of these tasks, one after the other; whether anything was new. @param {any[]} tasks @param {AbortSignal} signal */
export async function learn(tasks, signal) {
  let learned = false;
  for (const task of tasks) {
    const name = key(task);
    const before = known.get(name);
    if (before && Date.now() - before.asked < FRESH) continue;
    known.set(name, { usual: before?.usual ?? null, asked: Date.now() });
    try {
      const page = await get("v1/tasks", {
        queue: task.queue, state: "complete", name: task.name ?? task.command?.[0], limit: task.name ? SAMPLE : MANY, brief: true,
      }, { signal });
      known.set(name, { usual: summary(page.tasks.filter((/** @type {any} */ each) => kind(each) === kind(task))), asked: Date.now() });
      learned = true;
    } catch (error) {
      known.delete(name);
      throw error;
    }
  }
  return learned;
}

/** @param {any[]} tasks @returns {Usual} */
function summary(tasks) {
  const lengths = tasks
    .map((task) => (seconds(task.finished_at) ?? NaN) - (seconds(task.started_at) ?? NaN))
    .filter((length) => length >= 0)
    .sort((a, b) => a - b);
  if (lengths.length < 3) return null; // two are no custom
  return { median: lengths[Math.floor(lengths.length / 2)], most: lengths[Math.floor(lengths.length * 0.9)], sample: lengths.length };
}
