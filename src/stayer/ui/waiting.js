// Why tasks that could run do not.

import { get } from "./api.js";
import { clean, clock, many, seconds } from "./format.js";

/** Why the first task that waits is not taken. @param {any} queue @param {any[]} workers @returns {[string, string]} */
export function why(queue, workers) {
  const { counts } = queue;
  if (!counts.pending) return ["", "Nothing waits."];
  if (queue.paused) return ["warn", "It is paused: resume it to let tasks be taken."];
  const running = counts.started + counts.reserved;
  if (queue.limit !== null && running >= queue.limit) return ["", `Its limit of ${many(queue.limit, "task")} at once is reached.`];
  const listening = workers.filter((worker) => worker.state !== "STALE" && (worker.queues.includes(queue.name) || worker.queues.includes("*")));
  if (!listening.length) return ["bad", `No worker listens to it. Start one: stayer worker -q ${clean(queue.name, 40)}`];
  const able = listening.filter((worker) => !worker.draining);
  if (!able.length) return ["warn", "All workers that listen to it are draining."];
  const free = able.reduce((sum, worker) => sum + Math.max(0, worker.slots - worker.running), 0);
  if (!free) return ["", `All ${many(able.reduce((sum, worker) => sum + worker.slots, 0), "slot")} of its workers are busy.`];
  return ["", `${many(free, "slot")} free: it is about to be taken, or held, or needs another handler.`];
}

/** Why this one is not running; "" if it is, or has ended. @param {any} task @param {AbortSignal} signal @returns {Promise<string>} */
export async function whyNot(task, signal) {
  if (task.held && ["pending", "scheduled", "waiting"].includes(task.state)) return "It is held until somebody releases it.";
  if (task.state === "scheduled" && task.eta) return `It is due at ${clock(seconds(task.eta) ?? 0)}.`;
  if (task.state === "waiting") return "It waits for other tasks to end.";
  if (task.state !== "pending") return "";
  const [{ queues }, { workers }] = await Promise.all([get("v1/queues", { name: task.queue }, { signal }), get("v1/workers", {}, { signal })]);
  return queues[0] ? why(queues[0], workers)[1] : "";
}
