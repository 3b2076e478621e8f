// A worker in a process of its own, whose task never ends by itself. Ends on SIGTERM.

import { Worker } from "../src/index.js";

const stop = new AbortController();
process.on("SIGTERM", () => stop.abort(new Error("terminated")));
const held = (_, task) =>
  new Promise((resolve) => {
    const timer = setInterval(() => {}, 1000);
    task.signal.addEventListener("abort", () => (clearInterval(timer), resolve("by the first, late")), { once: true });
  });
const worker = new Worker({ token: process.env.STAYER_WORK_TOKEN, queues: ["js"], lease: "2s", handlers: { held } });
await worker.run({ signal: stop.signal });
