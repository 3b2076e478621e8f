import type {
  AcceptedFlow,
  AcceptedTask,
  Edits,
  Event,
  Explanation,
  Flow,
  FlowSubmission,
  Json,
  Problem,
  Queue,
  Submission,
  Sweep,
  Task,
  TaskFilter,
  TaskPage,
  TaskWithHistory,
  Worker as WorkerRecord,
} from "./records.js";

export type * from "./records.js";

/** Milliseconds, or a text such as "90s", "1h30m", "2d". */
export type Duration = number | string;

/** Stops a call from outside: the signal of an AbortController. */
export interface Abortable {
  signal?: AbortSignal;
}

export interface ClientOptions {
  /** Where the server is; else the variable STAYER_URL, or STAYER_STORE. */
  url?: string | URL;
  /** Made by `stayer token add`; else the variable STAYER_TOKEN. */
  token?: string;
  /** How long one answer may take (30s). */
  timeout?: Duration;
  /** How long requests that may safely be repeated are tried again while the server is away (1m). */
  retryFor?: Duration;
  /** Another `fetch` than the platform's. */
  fetch?: typeof globalThis.fetch;
}

export interface LogPiece {
  attempt: number;
  start: number;
  text: string;
}

export interface Request extends Abortable {
  query?: Record<string, unknown>;
  body?: unknown;
  /** Whether it may be sent again after a lost answer. GET is. */
  repeatable?: boolean;
  timeout?: number;
  as?: "json" | "text" | "bytes" | "nothing";
}

/** A server of Stayer's. */
export class Client {
  constructor(options?: ClientOptions | string | URL);
  readonly url: string;

  /** Submit a task. With the same id it is accepted once, however often it is sent. */
  submit(task: Submission, options?: Abortable): Promise<AcceptedTask>;
  /** Submit many tasks, in portions of up to 1,000. Each portion is accepted whole or not at all. */
  submitMany(tasks: Submission[], options?: Abortable): Promise<AcceptedTask[]>;
  submitFlow(flow: FlowSubmission, options?: Abortable): Promise<AcceptedFlow>;
  /** Submit a task for each combination of parameters. */
  submitSweep(sweep: Record<string, unknown>, options?: Abortable): Promise<AcceptedFlow>;

  /** A task with its attempts and events. */
  get(id: string, options?: Abortable): Promise<TaskWithHistory>;
  /** All tasks that match, newest first; pages are fetched as they are needed. */
  list(filter?: TaskFilter, options?: Abortable): AsyncGenerator<Task, void, undefined>;
  /** One page of the same. `next` is the `cursor` of the next one, null at the end. */
  page(filter?: TaskFilter & { cursor?: string | null }, options?: Abortable): Promise<TaskPage>;
  queues(options?: Abortable): Promise<Queue[]>;
  workers(options?: Abortable): Promise<WorkerRecord[]>;
  flow(id: string, options?: Abortable): Promise<Flow>;
  sweep(id: string, options?: Abortable): Promise<Sweep>;
  /** Why a task waits, or what it does, and when it will start and end. */
  explain(id: string, options?: Abortable): Promise<Explanation>;

  /** Wait for a task's result. Throws TaskFailed, TaskCancelled or WaitTimeout. */
  wait<Result = Json>(id: string, options?: Abortable & { timeout?: Duration }): Promise<Result>;
  /** Wait until a task has ended, however it ended, and return its record. */
  ended(id: string, options?: Abortable & { timeout?: Duration }): Promise<TaskWithHistory>;
  /** What happens to tasks, as it happens. Goes on after a lost connection, and misses nothing. */
  watch(
    options?: Abortable & { queue?: string | string[]; id?: string | string[]; since?: number },
  ): AsyncGenerator<Event, void, undefined>;
  /** What a task has printed: all of an attempt, or its last lines. */
  log(id: string, options?: Abortable & { attempt?: number; tail?: number }): Promise<string>;
  /** What a task prints, live, until it has ended. */
  followLog(
    id: string,
    options?: Abortable & { attempt?: number; tail?: number },
  ): AsyncGenerator<LogPiece, void, undefined>;

  /** Cancel a task: at once if it waits, else by asking its worker to stop it. */
  cancel(id: string, options?: Abortable & { grace?: Duration }): Promise<Task>;
  /** Run a finished task again, from its last checkpoint or from the start. */
  retry(id: string, options?: Abortable & { from_start?: boolean; changes?: Edits }): Promise<Task>;
  /** Submit a task like this one, with changes; results and checkpoints are not copied. */
  clone(id: string, changes?: Abortable & Edits): Promise<AcceptedTask>;
  /** Change what a task that waits is to do. */
  edit(id: string, changes: Abortable & Edits): Promise<Task>;
  /** Change the priority, the limits or the hooks of a task that has not ended. */
  set(id: string, changes: Abortable & Record<string, unknown>): Promise<Task>;
  hold(id: string, options?: Abortable): Promise<Task>;
  release(id: string, options?: Abortable): Promise<Task>;
  pause(id: string, options?: Abortable): Promise<Task>;
  resume(id: string, options?: Abortable): Promise<Task>;
  /** Send a signal ("USR1", "TERM") to the main process of a running task. */
  signal(id: string, name: string, options?: Abortable): Promise<Task>;
  /** Forget a finished task. */
  delete(id: string, options?: Abortable): Promise<void>;

  /** Any request of the HTTP API, for what has no method here. */
  request(method: string, path: string, options?: Request): Promise<any>;
}

/** The server refused, with a problem that says why. */
export class StayerError extends Error {
  /** The last word of the problem's type: "refused", "unknown-task" … */
  readonly kind: string;
  readonly status: number;
  readonly problem: (Problem & Record<string, unknown>) | null;
  /** Whether it may have been done all the same. */
  readonly unsure: boolean;
}

/** No answer came: the server is away, or the network is. */
export class Unreachable extends StayerError {}

/** The task whose result was wanted has failed. */
export class TaskFailed extends StayerError {
  readonly task: Task;
}

/** The task whose result was wanted was cancelled. */
export class TaskCancelled extends StayerError {
  readonly task: Task;
}

/** The task has not ended in the time given. It goes on. */
export class WaitTimeout extends StayerError {
  readonly id: string;
}

export interface WorkerOptions extends ClientOptions {
  /** Functions by the names of the tasks that they run; "" is for tasks with neither name nor command. */
  handlers?: Record<string, Handler>;
  /** Programs that tasks may run, by the first word of their command; "*" allows any. */
  commands?: string[];
  /** Where to take tasks from: of those that the token is for. All of them by default. */
  queues?: string[];
  /** How many tasks run at once (1). */
  slots?: number;
  /** How long the worker may be silent before its tasks go to others (2m). */
  lease?: Duration;
  /** How long a task may take to stop (10s), if who cancels it does not say. */
  grace?: Duration;
  /** Another name for this machine. */
  node?: string;
  /** What the server shows as its version. */
  version?: string;
  /** A client to use, in place of `url` and `token`. */
  client?: Client;
}

/** What it returns is the task's result; what it throws is its error. */
export type Handler = (parameters: any, task: TaskContext) => unknown;

/** A task while it runs. */
export interface TaskContext {
  readonly task: Task;
  /** Aborted when the task has to stop: it was cancelled or lost, or the worker shuts down. */
  readonly signal: AbortSignal;
  progress(done: number, total?: number, message?: string): Promise<void>;
  /** Set fields of your own, to find it by; null takes one away, others stay. */
  setMeta(fields: { [name: string]: Json }): Promise<void>;
  /** Add to its log. Sent in pieces, in the background. */
  log(text: string | Uint8Array): void;
  /** Save what the next attempt should go on from: any JSON value, or bytes. */
  checkpoint(value: Json | Uint8Array): Promise<void>;
  /** What the last attempt saved; null if nothing. */
  restore<Value = Json>(options?: { as?: "json" | "bytes" }): Promise<Value | null>;
  /** The results of the tasks that it runs after, by the names of the parts of its flow. */
  inputs(): Promise<{ [name: string]: Json }>;
  /** Run a program; its output goes to the log. It is stopped with the task. Node.js only. */
  spawn(command: string[], options?: { cwd?: string; env?: Record<string, string> }): Promise<void>;
}

/**
 * Takes tasks over HTTP and runs them. The token needs the role `work`.
 *
 * It promises at-least-once with fenced writes: it stops what it runs before its lease ends, as long
 * as it can itself run. `stayer worker` promises more.
 */
export class Worker {
  constructor(options: WorkerOptions);
  /**
   * Work until the signal says stop: then running tasks are stopped and go back to the queue. Also
   * ends when an operator drains the worker, after its last task.
   */
  run(options?: Abortable): Promise<void>;
}
