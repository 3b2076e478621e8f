// What a task is to be, as a form: to submit one, to copy one with changes, to change one.

import { get, post, taskPath } from "./api.js";
import { quoted, words } from "./commands.js";
import { ask } from "./dialogs.js";
import { parseGrid } from "./grid.js";
import { clean, spelled, title } from "./format.js";
import { go, href } from "./router.js";
import { toast } from "./widgets.js";

const COMMAND = "a command";
const FUNCTION = "a Python function";
const MORE = "More options";
const SWEEP = "Sweep: a task for each combination of parameters";
const FROM_CHECKPOINT = "its last checkpoint, if it saved one";
const FROM_START = "the start";

/** What of a task can't be changed any more. */
const FIXED = ["id", "queue", "key", "delay"];
const NUMBERS = ["priority", "retries"];
const LISTS = ["tags", "notify"];

/** As it is written in the form. @param {string} name @param {any} task */
function written(name, task) {
  const given = task[name];
  if (given === null || given === undefined) return "";
  if (name === "command") return given.map(quoted).join(" ");
  if (name === "parameters") return JSON.stringify(given, null, 2);
  if (name === "env") return Object.entries(given).map(([variable, value]) => `${variable}=${value}`).join("\n");
  if (LISTS.includes(name)) return given.join(", ");
  if (["deadline", "time_limit", "silence_limit", "retry_wait"].includes(name)) return spelled(given);
  return String(given);
}

/** As it is sent. @param {string} name @param {string} said */
function read(name, said) {
  if (!said) return null;
  if (name === "command") return words(said);
  if (name === "parameters") {
    try {
      return JSON.parse(said);
    } catch (error) {
      throw new Error(`Parameters: this is not JSON. ${/** @type {Error} */ (error).message}`);
    }
  }
  if (name === "env") {
    return Object.fromEntries(said.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`Variables: ${clean(line, 40)} is not written NAME=value`);
      return [line.slice(0, at), line.slice(at + 1)];
    }));
  }
  if (LISTS.includes(name)) return said.split(",").map((each) => each.trim()).filter(Boolean);
  if (NUMBERS.includes(name)) {
    if (!/^-?\d+$/.test(said)) throw new Error(`${name === "retries" ? "Retries" : "Priority"}: give a whole number`);
    return Number(said);
  }
  return said;
}

/** @param {string[]} queues @returns {import("./dialogs.js").Field[]} */
export const fieldsOf = (queues) => [
  { name: "what", label: "Run", options: [COMMAND, FUNCTION] },
  { name: "command", label: "Command", required: true, rows: 2, placeholder: "python train.py --lr 0.1", shown: ({ what }) => what === COMMAND,
    hint: "Words and quotes as in a shell; for pipes: sh -c '…'." },
  { name: "cwd", label: "Directory", placeholder: "where its worker was started", shown: ({ what }) => what === COMMAND, hint: "On the machine that runs it." },
  { name: "name", label: "Function", required: true, placeholder: "count, or package.module:function", shown: ({ what }) => what === FUNCTION,
    hint: "As the app of the workers calls it." },
  { name: "parameters", label: "Parameters", rows: 3, placeholder: '{"lr": 0.1, "seed": 1}', hint: "JSON. For a function: its arguments, by name." },
  { name: "queue", label: "Queue", offers: queues, placeholder: "the server's default queue" },
  { name: "id", label: "Id", group: MORE, placeholder: "a random one", hint: "An id is accepted once: submitting it again changes nothing." },
  { name: "tags", label: "Tags", group: MORE, placeholder: "nightly, model-a" },
  { name: "priority", label: "Priority", group: MORE, placeholder: "0", hint: "Higher goes first." },
  { name: "delay", label: "Start in", group: MORE, placeholder: "at once, or 2h" },
  { name: "retries", label: "Retries after a failure", group: MORE, placeholder: "the server's default, usually none" },
  { name: "retry_wait", label: "Wait before a retry", group: MORE, placeholder: "such as 1m" },
  { name: "deadline", label: "Deadline", group: MORE, placeholder: "none, or 2d", hint: "How long from now it may take, with all its retries." },
  { name: "time_limit", label: "Time limit", group: MORE, placeholder: "none, or 12h" },
  { name: "silence_limit", label: "Silence limit", group: MORE, placeholder: "none, or 30m", hint: "How long it may report and print nothing." },
  { name: "memory_limit", label: "Memory limit", group: MORE, placeholder: "none, or 8G" },
  { name: "key", label: "Key", group: MORE, placeholder: "none", hint: "Tasks with the same key share the limit that the queue has for it." },
  { name: "notify", label: "Notify", group: MORE, placeholder: "a hook of the workers, or https://…", hint: "When it ends; failed:HOOK only of a failure." },
  { name: "env", label: "Variables", group: MORE, rows: 2, placeholder: "NAME=value" },
];

/** Which are there, to be offered; those who may not ask are offered none. */
export async function queueNames() {
  try {
    return (await get("v1/queues", { partial: true })).queues.map((/** @type {any} */ queue) => queue.name);
  } catch {
    return [];
  }
}

/** The form with what a task is now. @param {any} task @param {string[]} leftOut @param {string} [group] @returns {Promise<import("./dialogs.js").Field[]>} */
export async function formOf(task, leftOut, group) {
  const what = task.command ? COMMAND : FUNCTION;
  return fieldsOf(await queueNames()).filter(({ name }) => !leftOut.includes(name)).map((field) => ({
    ...field, required: false, value: field.name === "what" ? what : written(field.name, task),
    ...(group ? { group } : {}),
  }));
}

/** What the answers change, where nothing is null. @param {any} task @param {Record<string, string>} answers */
export function changes(task, answers) {
  /** @type {Record<string, unknown>} */
  const found = {};
  const other = answers.what === COMMAND ? "name" : "command";
  for (const [name, said] of Object.entries(answers)) {
    const before = written(name, task);
    if (["what", "from", other].includes(name) || said === before.trim()) continue;
    found[name] = read(name, said);
  }
  if (answers.what !== (task.command ? COMMAND : FUNCTION)) found[other] = null;
  return found;
}

/** What a new task is to be. @param {Record<string, string>} answers */
export const taskOf = (answers) => Object.fromEntries(Object.entries(changes({ command: [] }, answers)).filter(([, value]) => value !== null));

/** @type {import("./dialogs.js").Field[]} */
const SWEEP_FIELDS = [
  { name: "grid", label: "Values", group: SWEEP, rows: 3, placeholder: "lr=0.1,0.01\nseed=1..5", hint: "One parameter a line. In the command, {lr} stands for a value." },
  { name: "throttle", label: "Running at once, at most", group: SWEEP, placeholder: "as many as workers take" },
];

/** Submit a new task, or a sweep; leads to it. */
export async function submit() {
  const names = await queueNames();
  return ask({
    heading: "Submit a task", button: "Submit", wide: true, fields: [...fieldsOf(names), ...SWEEP_FIELDS],
    act: async ({ grid, throttle, ...answers }) => {
      const task = taskOf(answers);
      if (grid) {
        const { id, ...each } = task;
        const found = await post("v1/sweeps", { parameters: parseGrid(grid), task: each, ...(id ? { id } : {}), ...(throttle ? { throttle: Number(throttle) } : {}) });
        toast(`${clean(found.id, 40)}: submitted`);
        return go(href("flow", found.id));
      }
      const accepted = await post("v1/tasks", task);
      toast(accepted.fresh ? `${clean(accepted.id, 40)}: submitted` : `${clean(accepted.id, 40)} is there already: ${clean(accepted.warning ?? accepted.state, 200)}`, accepted.warning ? "bad" : "good");
      go(href("task", accepted.id));
    },
  });
}

/** Submit a task like this one; leads to it. @param {any} task */
export async function clone(task) {
  const fields = await formOf({ ...task, id: null }, []);
  return ask({
    heading: `Clone ${title(task, 50)}`, button: "Submit", wide: true, fields,
    sentence: "A new task like this one, with the changes that you make here. Results and checkpoints are not copied.",
    act: async (answers) => {
      const accepted = await post(taskPath(task.id, "clone"), changes({ ...task, id: null }, answers));
      toast(`${clean(accepted.id, 40)}: submitted`);
      go(href("task", accepted.id));
    },
  });
}

/** Change one that waits. @param {any} task */
export async function edit(task) {
  return ask({
    heading: `Edit ${title(task, 50)}`, button: "Save", wide: true, fields: await formOf(task, FIXED),
    act: async (answers) => {
      const changed = changes(task, answers);
      if (!Object.keys(changed).length) throw new Error("Nothing was changed.");
      await post(taskPath(task.id, "edit"), changed);
      toast(`${clean(task.id, 24)}: saved`);
    },
  });
}

/** Run one again, perhaps with changes. @param {any} task */
export async function retry(task) {
  return ask({
    heading: `Retry ${title(task, 50)}?`, button: "Retry", wide: true,
    sentence: "It goes back to its queue and runs again.",
    fields: [
      { name: "from", label: "From", options: [FROM_CHECKPOINT, FROM_START],
        hint: "From the start: its checkpoint and the results of its finished steps are deleted." },
      ...await formOf(task, FIXED, "With changes"),
    ],
    act: async (answers) => {
      const changed = changes(task, answers);
      await post(taskPath(task.id, "retry"), { from_start: answers.from === FROM_START, ...(Object.keys(changed).length ? { changes: changed } : {}) });
      toast(`${clean(task.id, 24)}: back in its queue`);
    },
  });
}
