// Asking the server. One place knows about sessions, problems and whether it answers at all.

import { setClock } from "./format.js";
import { secret } from "./session.js";

/** What the server says is wrong. */
export class Problem extends Error {
  /** @param {number} status @param {string} detail @param {string} [kind] the last word of its type, such as `store-unreachable` */
  constructor(status, detail, kind = "") {
    super(detail);
    this.status = status;
    this.kind = kind;
  }
}

/** The server does not answer. */
export class Away extends Error {}

/** @type {{name: string, role: "read" | "submit" | "operate"} | null} */
let me = null;

/** Who looks at this page. */
export const who = () => me;

/** Whether verbs are to be shown at all. */
export const mayOperate = () => me?.role === "operate";

/** Whether tasks can be submitted. */
export const maySubmit = () => me?.role === "submit" || me?.role === "operate";

/** Find out who looks; leads to the login page if nobody does. */
export async function begin() {
  me = await get("v1/session");
  return me;
}

/**
 * @param {string} path relative, so that it holds behind a proxy with a prefix
 * @param {Record<string, unknown>} [query] arrays are repeated
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export const get = (path, query, options) => ask("GET", path + search(query), undefined, options);

/** @param {string} path @param {unknown} [body] @param {Record<string, unknown>} [query] @returns {Promise<any>} */
export const post = (path, body, query) => ask("POST", path + search(query), body);

/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export const patch = (path, body) => ask("PATCH", path, body);

/** @param {string} path @param {Record<string, unknown>} [query] @returns {Promise<any>} */
export const remove = (path, query) => ask("DELETE", path + search(query));

/** The path of a task. @param {string} id @param {string} [part] */
export const taskPath = (id, part) => `v1/tasks/${encodeURIComponent(id)}${part ? `/${part}` : ""}`;

/** What is no JSON, such as a log. @param {string} path @returns {Promise<Blob>} */
export const download = async (path) => (await request("GET", path, "*/*")).blob();

/** @param {Record<string, unknown>} [query] */
export function search(query) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") pairs.append(name, String(each));
    }
  }
  const written = pairs.toString();
  return written ? `?${written}` : "";
}

/**
 * @param {string} method @param {string} path @param {unknown} [body]
 * @param {{signal?: AbortSignal}} [options]
 */
async function ask(method, path, body, options) {
  const answer = await request(method, path, "application/json", body, options);
  if (answer.status === 204) return null;
  let said;
  try {
    said = await answer.json();
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Away("The server's answer was cut off.");
  }
  if (path.startsWith("v1/stats")) setClock(said.now);
  return said;
}

/**
 * @param {string} method @param {string} path @param {string} accept @param {unknown} [body]
 * @param {{signal?: AbortSignal}} [options]
 */
async function request(method, path, accept, body, options) {
  /** @type {Record<string, string>} */
  const headers = { Accept: accept, "X-Stayer-Request": secret() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: options?.signal,
      credentials: "same-origin",
    });
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Away("The server does not answer.");
  }
  if (answer.status === 401) {
    location.assign("login");
    return new Promise(() => {}); // the page is about to go
  }
  if (answer.ok) return answer;
  let said;
  try {
    said = await answer.json();
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new Away("The server's answer was cut off.");
  }
  throw new Problem(answer.status, said.detail || said.title || answer.statusText, said.type?.split(":").pop());
}
