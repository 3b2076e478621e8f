// Making and updating elements. Data becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An HTML element.
 * @param {string} tag `div`, or with classes: `div.card.wide`
 * @param {Record<string, unknown> | null} [attributes] `onclick` and such are listeners
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  dress(element, attributes);
  append(element, children);
  return element;
}

/**
 * An SVG element; as `h`.
 * @param {string} tag
 * @param {Record<string, unknown> | null} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function s(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElementNS(SVG, name);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  dress(element, attributes);
  append(element, children);
  return element;
}

/** @param {Element} element @param {Record<string, unknown> | null | undefined} attributes */
function dress(element, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "value") /** @type {HTMLInputElement} */ (element).value = String(value);
    else if (name === "class") element.setAttribute("class", [element.getAttribute("class"), value].filter(Boolean).join(" "));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {Element} element @param {(Child | Child[])[]} children */
function append(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Replace what is in an element. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Set the text, if it is another one: what did not change is not drawn again. */
export function text(/** @type {Element} */ element, /** @type {unknown} */ value) {
  const said = value === null || value === undefined ? "" : String(value);
  if (element.textContent !== said) element.textContent = said;
  return element;
}

/** Set or remove an attribute, if that is a change. */
export function attribute(/** @type {Element} */ element, /** @type {string} */ name, /** @type {unknown} */ value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else {
    const said = value === true ? "" : String(value);
    if (element.getAttribute(name) !== said) element.setAttribute(name, said);
  }
  return element;
}

/** A property of the element's own style. The policy of the page allows it from script alone. */
export function style(/** @type {HTMLElement | SVGElement} */ element, /** @type {string} */ name, /** @type {string} */ value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
  return element;
}

/**
 * Let the children of an element follow a list: nodes are kept by key, made and moved only where needed.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} key
 * @param {(item: T) => {node: Element, update?: (item: T) => void}} make
 */
export function keyed(parent, items, key, make) {
  /** @type {Map<string, {node: Element, update?: (item: T) => void}>} */
  const known = /** @type {any} */ (parent).known ?? new Map();
  /** @type {any} */ (parent).known = known;
  const wanted = new Set(items.map(key));
  for (const [name, part] of known) {
    if (wanted.has(name)) continue;
    part.node.remove();
    known.delete(name);
  }
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let part = known.get(name);
    if (!part) known.set(name, (part = make(item)));
    part.update?.(item);
    if (part.node === place) place = place.nextElementSibling;
    else parent.insertBefore(part.node, place);
  }
}
