// Which page is meant: the part of the address behind #, so that links work below any prefix.

/** @typedef {{page: string, id: string, query: URLSearchParams}} Place */

/** @returns {Place} */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/");
  let id = "";
  try {
    id = decodeURIComponent(rest.join("/"));
  } catch {
    // A broken escape: no such task, and the page will say so.
    id = rest.join("/");
  }
  return { page: page || "now", id, query: new URLSearchParams(query ?? "") };
}

/** The address of a page. @param {string} page @param {string} [id] @param {URLSearchParams | Record<string, string>} [query] */
export function href(page, id, query) {
  const asked = new URLSearchParams(query).toString();
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${asked ? `?${asked}` : ""}`;
}

/** @param {string} address */
export function go(address) {
  location.hash = address;
}

/** Change the address without leaving the page. @param {string} address */
export function rewrite(address) {
  history.replaceState(null, "", address);
}
