// How much a running task is to be worried about, and what would be lost with its machine.

import { age, duration, now, seconds } from "./format.js";
import { typicalRun } from "./typical.js";

const LONG_SILENCE = 600;

/**
 * @typedef {{level: 0 | 1 | 2, silent: boolean, reasons: string[], loses: number}} Risk level 2 is an alarm; silent: for too long
 */

/**
 * Seconds of work that its machine would take with it: since the last checkpoint, else since the start.
 * @param {any} task
 */
export function unsaved(task) {
  const started = seconds(task.started_at);
  return started === null ? null : Math.max(0, now() - Math.max(started, seconds(task.checkpoint_at) ?? 0));
}

/** Seconds until it is expected to end, as it was said and has come nearer since; null: nobody knows. @param {any} task */
export function remaining(task) {
  const said = task.progress?.remaining ?? null;
  const at = seconds(task.progress?.at);
  return said === null || at === null ? null : Math.max(0, said - (task.paused ? 0 : now() - at));
}

/** How long it has run. @param {any} task */
export const elapsed = (task) => age(task.started_at);

/** How long it has said nothing; null if it never said anything. @param {any} task */
export const silence = (task) => age(task.progress?.at);

/** @param {any} task @param {any[]} workers @returns {Risk} */
export function judge(task, workers) {
  /** @type {[0 | 1 | 2, string][]} */
  const found = [];
  const holder = workers.find((worker) => worker.id === task.worker);
  if (holder?.state === "STALE") found.push([2, "worker silent"]);
  const quiet = silence(task);
  const limit = task.silence_limit;
  const silent = !task.paused && quiet !== null && quiet > (limit ? limit * 0.7 : LONG_SILENCE);
  if (silent) {
    found.push([limit || quiet > 6 * LONG_SILENCE ? 2 : 1, `silent ${duration(quiet)}`]);
  }
  const ran = elapsed(task);
  const custom = typicalRun(task);
  if (custom && ran !== null && ran > Math.max(custom.most * 1.3, custom.median * 1.5, 30)) {
    const times = ran / Math.max(1, custom.median);
    found.push([times > 3 ? 2 : 1, `${times.toFixed(1)}× usual`]);
  }
  if (task.time_limit && ran !== null && ran > task.time_limit * 0.9) found.push([2, "near its time limit"]);
  if (task.memory_limit && task.usage?.rss > task.memory_limit * 0.9) found.push([2, "near its memory limit"]);
  const level = /** @type {0 | 1 | 2} */ (Math.max(0, ...found.map(([each]) => each)));
  return { level, silent, reasons: found.map(([, said]) => said), loses: unsaved(task) ?? 0 };
}
