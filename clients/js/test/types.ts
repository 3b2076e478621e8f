// Compiled, never run: what the types allow, and what they don't.

import { Client, TaskFailed, type AcceptedTask, type Task } from "../src/index.js";

const client = new Client({ url: "https://tasks.example.org", timeout: "30s" });

export async function use(): Promise<void> {
  const task: AcceptedTask = await client.submit({ command: ["true"], tags: ["a"], retries: 2 });
  const fresh: boolean = task.fresh;
  const result = await client.wait<{ loss: number }>(task.id, { timeout: "1h" });
  const loss: number = result.loss;
  for await (const each of client.list({ state: "running", tag: ["a", "b"] })) {
    const one: Task = each;
    if (one.error !== null) console.log(one.error.message, fresh, loss);
  }
  for await (const event of client.watch({ queue: "films" })) console.log(event.event, event.number);
  // @ts-expect-error: no such field
  await client.submit({ comand: ["true"] });
  // @ts-expect-error: a number of seconds, or a text
  await client.submit({ retries: "many" });
  try {
    await client.cancel(task.id, { grace: "10s" });
  } catch (error) {
    if (error instanceof TaskFailed) console.log(error.task.id, error.kind);
  }
}
