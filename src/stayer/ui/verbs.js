// Actions to a task: one entry a verb, the same words as on the command line.

import { mayOperate, patch, post, remove, taskPath } from "./api.js";
import { ask } from "./dialogs.js";
import { clean, title } from "./format.js";
import { clone, edit, retry } from "./task-form.js";
import { toast } from "./widgets.js";

const QUEUED = ["waiting", "scheduled", "pending"];
const RUNNING = ["reserved", "started"];
const FINISHED = ["complete", "failed", "cancelled"];

/**
 * @typedef {{verb: import("./icons.js").Icon, label: string, danger?: boolean, fits: (task: any) => boolean, run: (task: any) => Promise<boolean>}} Verb
 */

/** @param {any} task @param {string} verb @param {unknown} [body] */
const tell = (task, verb, body) => post(taskPath(task.id, verb), body);

/**
 * A verb that needs no more than a yes.
 * @param {import("./icons.js").Icon} verb @param {string} label @param {(task: any) => boolean} fits
 * @param {string} sentence @param {string} done @param {string} [asks] what is asked before the name
 * @returns {Verb}
 */
function simple(verb, label, fits, sentence, done, asks = label) {
  return {
    verb, label, fits,
    run: (task) => ask({
      heading: `${asks} ${title(task, 50)}?`, sentence, button: label,
      act: async () => {
        await tell(task, verb);
        toast(`${clean(task.id, 24)}: ${done}`);
      },
    }),
  };
}

/** @type {Verb} */
const CLONE = { verb: "clone", label: "Clone", fits: () => true, run: clone };

/** What this person may do to a task: who may only submit, may submit it again. */
export const permitted = () => (mayOperate() ? VERBS : [CLONE]);

/** @type {Verb[]} */
const VERBS = [
  { verb: "retry", label: "Retry", fits: (task) => FINISHED.includes(task.state), run: retry },
  { verb: "edit", label: "Edit", fits: (task) => QUEUED.includes(task.state), run: edit },
  CLONE,
  simple("pause", "Pause", (task) => task.state === "started" && !task.paused,
    "Its processes stop where they are and keep their memory. The clock of its time limit stops, too.", "asked to pause"),
  simple("resume", "Resume", (task) => task.state === "started" && task.paused,
    "Its processes continue from where they stopped.", "asked to resume"),
  simple("hold", "Hold", (task) => QUEUED.includes(task.state) && !task.held,
    "It does not start until you release it.", "held"),
  simple("release", "Release", (task) => task.held, "It may start again.", "released"),
  simple("stack", "Stack", (task) => task.state === "started" && !task.command,
    "What each of its threads is doing is written to its log. Python tasks only.", "asked for its stacks: see the log", "Write down the stacks of"),
  {
    verb: "signal", label: "Signal", fits: (task) => task.state === "started",
    run: (task) => ask({
      heading: `Send a signal to ${title(task, 50)}`, button: "Send",
      fields: [{ name: "signal", label: "Signal", options: ["USR1", "USR2", "HUP", "INT", "TERM", "CONT", "WINCH"],
        hint: "It goes to the main process of the task." }],
      act: async ({ signal }) => {
        await tell(task, "signal", { signal });
        toast(`${clean(task.id, 24)}: ${signal} is on its way`);
      },
    }),
  },
  { verb: "set", label: "Set", fits: (task) => !FINISHED.includes(task.state), run: set },
  {
    verb: "cancel", label: "Cancel", danger: true, fits: (task) => !FINISHED.includes(task.state),
    run: (task) => ask({
      heading: `Cancel ${title(task, 50)}?`, button: "Cancel the task", danger: true,
      sentence: RUNNING.includes(task.state)
        ? "Its processes, and all that they started, are asked to stop and then killed. What it did since its last checkpoint is lost."
        : "It leaves its queue and is not run.",
      fields: RUNNING.includes(task.state)
        ? [{ name: "grace", label: "Time to stop by itself", placeholder: "as set, usually 30s", hint: "Such as 10s or 5m; 0 kills at once." }] : [],
      act: async ({ grace }) => {
        await tell(task, "cancel", grace ? { grace } : undefined);
        toast(`${clean(task.id, 24)}: ${RUNNING.includes(task.state) ? "asked to stop" : "cancelled"}`);
      },
    }),
  },
  {
    verb: "delete", label: "Delete", danger: true, fits: (task) => FINISHED.includes(task.state),
    run: (task) => ask({
      heading: `Delete ${title(task, 50)}?`, button: "Delete", danger: true,
      sentence: "Its record, its result and its log are gone for good.",
      act: async () => {
        await remove(taskPath(task.id));
        toast(`${clean(task.id, 24)}: deleted`);
      },
    }),
  },
];

/** @param {any} task */
function set(task) {
  const running = RUNNING.includes(task.state);
  const limits = ["time_limit", "silence_limit", "memory_limit"];
  const before = Object.fromEntries(limits.map((name) => [name, task[name] === null || task[name] === undefined ? "" : String(task[name])]));
  return ask({
    heading: `Set for ${title(task, 50)}`, button: "Set",
    fields: [
      ...(running ? [] : [{ name: "priority", label: "Priority", value: String(task.priority), hint: "Higher goes first." }]),
      { name: "time_limit", label: "Time limit", value: before.time_limit, placeholder: "none", hint: "Such as 12h, or seconds." },
      { name: "silence_limit", label: "Silence limit", value: before.silence_limit, placeholder: "none", hint: "How long it may report and print nothing." },
      { name: "memory_limit", label: "Memory limit", value: before.memory_limit, placeholder: "none", hint: "Such as 8G, or bytes." },
    ],
    act: async (answers) => {
      /** @type {Record<string, unknown>} */
      const body = {};
      for (const name of limits) {
        if (answers[name] !== before[name]) body[name] = /^\d+$/.test(answers[name]) ? Number(answers[name]) : answers[name] || null;
      }
      if (!running && Number(answers.priority) !== task.priority) body.priority = Number(answers.priority);
      if (!Object.keys(body).length) throw new Error("Nothing was changed.");
      await patch(taskPath(task.id), body);
      toast(`${clean(task.id, 24)}: set`);
    },
  });
}
