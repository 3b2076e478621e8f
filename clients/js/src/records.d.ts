// Written by docs/typescript_records.py from the OpenAPI document.

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** What a task is, and how it stands. */
export interface Task {
  id: string;
  queue: string;
  name: string | null;
  command: string[] | null;
  cwd: string | null;
  env: { [key: string]: string } | null;
  parameters: Json;
  state: "cancelled" | "complete" | "failed" | "pending" | "reserved" | "scheduled" | "started" | "waiting";
  held: boolean;
  attempt: number;
  failures: number;
  interruptions: number;
  ending: "cancelled" | "done" | "environment" | "error" | "expired" | "interrupted" | "killed" | "lost" | "oom" | "silent" | "snoozed" | "timeout" | null;
  priority: number;
  owner: string | null;
  tags: string[];
  result: Json;
  error: Fault | null;
  progress: Progress | null;
  node: string | null;
  worker: string | null;
  pid: number | null;
  created: string;
  updated: string;
  eta: string | null;
  started_at: string | null;
  finished_at: string | null;
  paused: boolean;
  usage: Usage | null;
  checkpoint_at: string | null;
  orders: Order[];
  start_before: string | null;
  finish_before: string | null;
  flow: string | null;
  part: string | null;
  upstreams: number;
  key: string | null;
  unique: string | null;
  unique_while: "alive" | "waiting";
  unique_for: number;
  notify: string[];
  fingerprint: string | null;
  cloned_from: string | null;
  code: Code | null;
  pinned: Pinned | null;
  meta: { [key: string]: Json } | null;
  submitted_by: string | null;
  source_commit: string | null;
  metrics: { [key: string]: Metric } | null;
  retries: number;
  retry_wait: number;
  retry_backoff: number;
  retry_cap: number;
  retry_on: string[];
  give_up_on: string[];
  deadline: number | null;
  time_limit: number | null;
  silence_limit: number | null;
  memory_limit: number | null;
  grace: number | null;
  fence: "freeze" | "kill" | null;
  when_failed: "cancel" | "hold" | "run";
  time_growth: number;
  time_most: number | null;
  memory_growth: number;
  memory_most: number | null;
  near: string | null;
  near_wait: number | null;
}

/** What is submitted. */
export interface Submission {
  queue?: string | null;
  id?: string | null;
  name?: string | null;
  command?: string[] | null;
  parameters?: Json | null;
  priority?: number | null;
  delay?: number | string | null;
  eta?: number | string | null;
  expire?: number | string | null;
  start_before?: number | string | null;
  after?: string[] | null;
  when_failed?: "cancel" | "hold" | "run" | null;
  near?: string | null;
  near_wait?: number | string | null;
  cwd?: string | null;
  env?: { [key: string]: string } | null;
  code?: Code | null;
  tags?: string[] | null;
  meta?: { [key: string]: Json } | null;
  owner?: string | null;
  key?: string | null;
  unique?: string | null;
  unique_while?: "alive" | "waiting" | null;
  unique_for?: number | string | null;
  notify?: string[] | null;
  held?: boolean | null;
  retries?: number | null;
  retry_wait?: number | string | null;
  retry_backoff?: number | null;
  retry_cap?: number | string | null;
  retry_on?: string[] | null;
  give_up_on?: string[] | null;
  deadline?: number | string | null;
  time_limit?: number | string | null;
  silence_limit?: number | string | null;
  memory_limit?: number | string | null;
  time_growth?: number | null;
  time_most?: number | string | null;
  memory_growth?: number | null;
  memory_most?: number | string | null;
  grace?: number | string | null;
  fence?: "freeze" | "kill" | null;
  cloned_from?: string | null;
  submitted_by?: string | null;
  source_commit?: string | null;
}

/** What is to be different; null stands for the default. */
export interface Edits {
  queue?: string | null;
  id?: string | null;
  name?: string | null;
  command?: string[] | null;
  parameters?: Json | null;
  priority?: number | null;
  delay?: number | string | null;
  eta?: number | string | null;
  expire?: number | string | null;
  start_before?: number | string | null;
  after?: string[] | null;
  when_failed?: "cancel" | "hold" | "run" | null;
  near?: string | null;
  near_wait?: number | string | null;
  cwd?: string | null;
  env?: { [key: string]: string } | null;
  code?: Code | null;
  tags?: string[] | null;
  meta?: { [key: string]: Json } | null;
  owner?: string | null;
  key?: string | null;
  unique?: string | null;
  unique_while?: "alive" | "waiting" | null;
  unique_for?: number | string | null;
  notify?: string[] | null;
  held?: boolean | null;
  retries?: number | null;
  retry_wait?: number | string | null;
  retry_backoff?: number | null;
  retry_cap?: number | string | null;
  retry_on?: string[] | null;
  give_up_on?: string[] | null;
  deadline?: number | string | null;
  time_limit?: number | string | null;
  silence_limit?: number | string | null;
  memory_limit?: number | string | null;
  time_growth?: number | null;
  time_most?: number | string | null;
  memory_growth?: number | null;
  memory_most?: number | string | null;
  grace?: number | string | null;
  fence?: "freeze" | "kill" | null;
  cloned_from?: string | null;
  submitted_by?: string | null;
  source_commit?: string | null;
  /** Parameters that are set one by one; the others stay. */
  set_parameters?: { [key: string]: Json };
}

/** A task, and whether this submission made it. */
export type AcceptedTask = Task & { fresh: boolean; warning?: string; purged?: boolean; };

/** A task with its attempts and events. */
export type TaskWithHistory = Task & { attempts: Attempt[]; events: Event[]; };

/** A page of tasks. */
export interface TaskPage {
  tasks: Task[];
  next: string | null;
}

/** A try at a task. */
export interface Attempt {
  attempt: number;
  worker: string | null;
  node: string | null;
  pid: number | null;
  reserved_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  ending: "cancelled" | "done" | "environment" | "error" | "expired" | "interrupted" | "killed" | "lost" | "oom" | "silent" | "snoozed" | "timeout" | null;
  error: Fault | null;
  usage: Usage | null;
}

/** Something that happened to a task. */
export interface Event {
  number: number;
  at: string;
  id: string;
  queue: string;
  event: string;
  attempt: number;
  worker: string | null;
  note: string | null;
}

/** Why a task waits, or what it does. */
export interface Explanation {
  id: string;
  state: string;
  reasons: Reason[];
  ahead: number | null;
  forecast: Forecast | null;
}

/** A queue with its counts. */
export interface Queue {
  name: string;
  paused: boolean;
  limit: number | null;
  key_limit: number | null;
  key_limits: { [key: string]: number };
  rate: string | null;
  fair: "key" | "owner" | null;
  notify: string[];
  defaults: QueueDefaults;
  next_start: string | null;
  counts: { [key: string]: number };
  workers: number;
  oldest: string | null;
  retention: { [key: string]: number };
}

/** What tasks of a queue have unless they say otherwise. */
export interface QueueDefaults {
  code?: Code | null;
  retries?: number | null;
  retry_wait?: number | string | null;
  retry_backoff?: number | null;
  retry_cap?: number | string | null;
  retry_on?: string[] | null;
  give_up_on?: string[] | null;
  deadline?: number | string | null;
  time_limit?: number | string | null;
  silence_limit?: number | string | null;
  memory_limit?: number | string | null;
  grace?: number | string | null;
}

/** Who takes tasks. */
export interface Worker {
  id: string;
  node: string;
  pid: number;
  queues: string[];
  slots: number;
  version: string;
  draining: boolean;
  lease: number;
  keeps: boolean;
  handles: Handles | null;
  number: number;
  started_at: string;
  beat_at: string;
  running: number;
  state: "DRAINING" | "IDLE" | "PROCESSING" | "STALE";
  order: WorkerOrder | null;
}

/** What a flow.json says. */
export interface FlowSubmission {
  id?: string;
  name: string;
  owner?: string | null;
  defaults?: FlowTask;
  tasks: { [key: string]: FlowTask };
}

/** A flow: its parts, and how many tasks are in each state. */
export interface Flow {
  id: string;
  name: string;
  owner: string | null;
  created: string;
  state: "waiting" | "scheduled" | "pending" | "reserved" | "started" | "complete" | "failed" | "cancelled";
  counts: { waiting: number; scheduled: number; pending: number; reserved: number; started: number; complete: number; failed: number; cancelled: number; };
  parts: FlowPart[];
}

/** A flow, and whether this submission made it. */
export type AcceptedFlow = Flow & { fresh: boolean; };

/** The runs of a sweep, to be compared. */
export interface Sweep {
  id: string;
  name: string;
  state: "waiting" | "scheduled" | "pending" | "reserved" | "started" | "complete" | "failed" | "cancelled";
  counts: { waiting: number; scheduled: number; pending: number; reserved: number; started: number; complete: number; failed: number; cancelled: number; };
  parameters: string[];
  figures: string[];
  metrics: string[];
  runs: Run[];
}

/** What went wrong (RFC 9457). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
}

export interface Code {
  requirements?: string[] | string;
  python?: string | null;
  git?: string | null;
  files?: SentFile[];
  image?: string | null;
}

export interface Fault {
  type: string;
  message: string;
  traceback: string | null;
  exit_code: number | null;
  signal: number | null;
}

export interface FlowPart {
  name: string;
  queue: string;
  kind: string;
  tasks: number;
  is_map: boolean;
  at_once: number | null;
  after: string[];
  template: string[] | null;
  state: "waiting" | "scheduled" | "pending" | "reserved" | "started" | "complete" | "failed" | "cancelled";
  counts: { waiting: number; scheduled: number; pending: number; reserved: number; started: number; complete: number; failed: number; cancelled: number; };
}

export interface FlowTask {
  queue?: string | null;
  name?: string | null;
  command?: string[] | null;
  parameters?: Json | null;
  priority?: number | null;
  delay?: number | string | null;
  eta?: number | string | null;
  expire?: number | string | null;
  start_before?: number | string | null;
  /** Parts of this flow that it runs after. */
  after?: string[];
  when_failed?: "cancel" | "hold" | "run" | null;
  /** One of those that it runs after: on whose node to run. */
  near?: string;
  near_wait?: number | string | null;
  cwd?: string | null;
  env?: { [key: string]: string } | null;
  code?: Code | null;
  tags?: string[] | null;
  meta?: { [key: string]: Json } | null;
  owner?: string | null;
  key?: string | null;
  unique?: string | null;
  unique_while?: "alive" | "waiting" | null;
  unique_for?: number | string | null;
  notify?: string[] | null;
  held?: boolean | null;
  retries?: number | null;
  retry_wait?: number | string | null;
  retry_backoff?: number | null;
  retry_cap?: number | string | null;
  retry_on?: string[] | null;
  give_up_on?: string[] | null;
  deadline?: number | string | null;
  time_limit?: number | string | null;
  silence_limit?: number | string | null;
  memory_limit?: number | string | null;
  time_growth?: number | null;
  time_most?: number | string | null;
  memory_growth?: number | null;
  memory_most?: number | string | null;
  grace?: number | string | null;
  fence?: "freeze" | "kill" | null;
  cloned_from?: string | null;
  submitted_by?: string | null;
  source_commit?: string | null;
  /** Ids of tasks outside the flow. */
  after_tasks?: string[];
  /** A task for each item. */
  map?: Json[] | string;
  at_once?: number;
}

export interface Forecast {
  starts: Span | null;
  ends: Span | null;
  samples: number;
}

export interface Handles {
  plain: boolean;
  names: string[];
  programs: string[];
  variables: string[];
  threads: boolean;
  answered_at: string | null;
}

export interface Metric {
  last: number | null;
  min: number | null;
  max: number | null;
  count: number;
  x: number | null;
}

export interface Order {
  number: number;
  verb: "cancel" | "pause" | "resume" | "set" | "signal" | "stack";
  arguments: { [key: string]: Json };
  acknowledged: boolean;
}

export interface Pinned {
  python: string;
  lock: string | null;
  commit: string | null;
  anew: boolean;
  image: string | null;
  git: string | null;
}

export interface Progress {
  done: number | null;
  total: number | null;
  message: string | null;
  at: string | null;
  remaining: number | null;
}

export interface Reason {
  reason: string;
  text: string;
}

export interface Run {
  id: string;
  place: number;
  parameters: { [key: string]: Json };
  state: "cancelled" | "complete" | "failed" | "pending" | "reserved" | "scheduled" | "started" | "waiting";
  result: Json;
  error: string | null;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration: number | null;
  metrics: { [key: string]: number | null };
}

export interface SentFile {
  name: string;
  sha256: string;
  size: number;
  executable?: boolean;
}

export interface Span {
  low: string;
  likely: string;
  high: string;
}

export interface Usage {
  ran: number;
  cpu: number;
  rss: number;
  peak: number;
  read: number;
  written: number;
  processes: number;
  at: string | null;
}

export interface WorkerOrder {
  number: number;
  queues: string[] | null;
  slots: number | null;
  grace: number | null;
  ends_at: string | null;
}

/** Which tasks: the query of GET /v1/tasks. */
export interface TaskFilter {
  /** With this id. May be repeated, to match any. */
  id?: string | string[];
  /** With an id that begins so. */
  prefix?: string;
  /** In this queue. May be repeated, to match any. */
  queue?: string | string[];
  /** In this state: waiting, scheduled, pending, reserved, started, complete, failed, cancelled; running is reserved or started. May be repeated, to match any. */
  state?: string | string[];
  /** With this name, or with a command that begins with this word. */
  name?: string;
  /** Of this owner. */
  owner?: string;
  /** With this key. */
  key?: string;
  /** With this unique word. */
  unique?: string;
  /** With this tag. May be repeated, to match all. */
  tag?: string | string[];
  /** Held by this worker. */
  worker?: string;
  /** Held, or not. */
  held?: boolean;
  /** Submitted in the last 2h, or since 20:30, or since 2026-11-15. As RFC 3339, epoch seconds, or how long ago (2h). */
  since?: string | number;
  /** Submitted before this moment. As RFC 3339, epoch seconds, or how long ago (2h). */
  until?: string | number;
  /** Of this flow. */
  flow?: string;
  /** Failed in this way: see `stayer failures`. */
  fingerprint?: string;
  /** With these words somewhere in id, name, command, parameters, tags, meta or error. A page may be short, or empty, and not be the last. */
  q?: string;
  /** With this field of your own. May be repeated, to match all. As in `team=vision`. */
  meta?: string | string[];
  /** With this in its parameters: source=s3://a, layers[0].size=64. May be repeated, to match all. Looks into every task that the rest leaves over. */
  where?: string | string[];
  /** How many at most. */
  limit?: number;
  /** Null for parameters and results of more than 500 bytes, for env and traceback: they can be large. */
  brief?: boolean;
  /** While a part of the store is away, answer with what can be reached; `away` has the queues that can't be, and why. Else that is a 503. */
  partial?: boolean;
  [other: string]: unknown;
}
