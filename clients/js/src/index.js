// The package's public names. Types: index.d.ts.

export { Client } from "./client.js";
export { StayerError, TaskCancelled, TaskFailed, Unreachable, WaitTimeout } from "./errors.js";
export { Worker } from "./worker.js";
