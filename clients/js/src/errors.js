// What can go wrong. `kind` is the last word of the problem's type: "refused", "unknown-task" …

const URN = "urn:stayer:problem:";

/** The server refused, with a problem that says why. */
export class StayerError extends Error {
  constructor(message, { kind = "error", status = 0, problem = null, cause } = {}) {
    super(message, { cause });
    this.name = new.target.name;
    this.kind = kind;
    this.status = status;
    this.problem = problem;
  }

  /** Whether it may have been done all the same: the answer, not the request, was lost. */
  get unsure() {
    return Boolean(this.problem?.unsure);
  }
}

/** No answer came: the server is away, or the network is. */
export class Unreachable extends StayerError {}

/** The task whose result was wanted has failed. */
export class TaskFailed extends StayerError {
  constructor(task) {
    const fault = task.error;
    const why = fault ? `: ${fault.type}: ${fault.message}` : "";
    super(`task ${task.id} failed${why}`, { kind: "task-failed", status: 409 });
    this.task = task;
  }
}

/** The task whose result was wanted was cancelled. */
export class TaskCancelled extends StayerError {
  constructor(task) {
    super(`task ${task.id} was cancelled`, { kind: "task-cancelled", status: 409 });
    this.task = task;
  }
}

/** The task has not ended in the time given. It goes on. */
export class WaitTimeout extends StayerError {
  constructor(id) {
    super(`task ${id} has not ended in the time given: it goes on`, { kind: "wait-timeout" });
    this.id = id;
  }
}

/** The error that an answer stands for. */
export async function errorOf(response) {
  const text = await response.text().catch(() => "");
  if ((response.headers.get("content-type") ?? "").startsWith("application/problem+json")) {
    const problem = JSON.parse(text);
    const kind = String(problem.type).replace(URN, "");
    return new StayerError(problem.detail, { kind, status: response.status, problem });
  }
  const message = `the server answers with status ${response.status}: is this the URL of a \`stayer serve\`?`;
  return new StayerError(message, { kind: "not-stayer", status: response.status });
}
