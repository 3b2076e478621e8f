// Why tasks that could run do not.

import { get, taskPath } from "./api.js";
import { COMMANDS } from "./commands.js";
import { clean, clock, duration, many, now, seconds } from "./format.js";

/**
 * Why the first task that waits is not taken; null: nothing about the queue says it.
 * @param {any} queue @param {any[]} workers
 * @returns {[string, string] | null}
 */
export function why(queue, workers) {
  const { counts } = queue;
  if (!counts.pending) return ["", "Nothing waits."];
  if (queue.paused) return ["warn", "It is paused: resume it to let tasks be taken."];
  if (!queue.oldest) return ["warn", counts.pending === 1 ? "It is held until somebody releases it." : `All ${many(counts.pending, "task")} are held, until somebody releases them.`];
  const running = counts.started + counts.reserved;
  if (queue.limit !== null && running >= queue.limit) return ["", `Its limit of ${many(queue.limit, "task")} at once is reached.`];
  if (queue.next_start) return ["", `Its rate of ${queue.rate} lets the next task begin in ${duration(Math.max(0, (seconds(queue.next_start) ?? 0) - now()))}.`];
  const listening = workers.filter((worker) => worker.state !== "STALE" && (worker.queues.includes(queue.name) || worker.queues.includes("*")));
  if (!listening.length) return ["bad", `No worker listens to it. Start one: \`${clean(COMMANDS.workerFor(queue.name), 120)}\``];
  const able = listening.filter((worker) => !worker.draining);
  if (!able.length) return ["warn", "All workers that listen to it are draining."];
  const free = able.reduce((sum, worker) => sum + Math.max(0, worker.slots - worker.running), 0);
  if (!free) return ["", `All ${many(able.reduce((sum, worker) => sum + worker.slots, 0), "slot")} of its workers are busy.`];
  return null;
}

/**
 * What the server says of a task: why it does not run, and when it will. Asked at most every few seconds, and at once
 * when the task has changed.
 * @param {string} id
 */
export function explainer(id) {
  let found = /** @type {any} */ (null);
  let mark = "";
  let asked = 0;
  return async (/** @type {any} */ task, /** @type {AbortSignal} */ signal) => {
    const state = `${task.state} ${task.held} ${task.paused} ${task.attempt}`;
    if (found && state === mark && Date.now() - asked < 4000) return found;
    [asked, mark] = [Date.now(), state];
    found = await get(taskPath(id, "explain"), {}, { signal });
    return found;
  };
}

/** A moment of a forecast, and its range: `["≈ 14:05", "in 3m to 9m"]`. @param {{low: string, likely: string, high: string} | null} span @returns {[string, string] | null} */
export function forecast(span) {
  if (!span) return null;
  const [low, high] = [span.low, span.high].map((at) => Math.max(0, (seconds(at) ?? 0) - now()));
  if (high < 2) return ["now", ""];
  return [`≈ ${clock(seconds(span.likely) ?? 0)}`, high - low < 2 ? `in ${duration(high)}` : `in ${duration(low)} to ${duration(high)}`];
}
