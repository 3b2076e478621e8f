// The page's half of a session. The cookie goes to every port of this host, so it opens nothing alone:
// this secret goes with every request too, and only pages of the same origin can read it.

/** Servers below different prefixes of one origin share its storage. */
const KEY = `stayer-session ${new URL(".", location.href).pathname}`;

/** "" if nobody has logged in here. */
export function secret() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** Throws if this browser keeps nothing for pages. @param {string} word */
export const keep = (word) => localStorage.setItem(KEY, word);

export function forget() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // It was not kept, then.
  }
}
