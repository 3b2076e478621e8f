// A list of which only the rows in sight exist: a hundred thousand rows cost no more than fifty.

import { style } from "./dom.js";

const BEYOND = 8;

/**
 * @param {HTMLElement} scroller what scrolls; or the window, if it is the document's element
 * @param {HTMLElement} place holds the rows; gets the height of all of them
 * @param {{height: number, make: (index: number) => HTMLElement, shown?: (last: number) => void}} options
 */
export function virtual(scroller, place, options) {
  let total = 0;
  let height = options.height;
  /** @type {Map<number, HTMLElement>} */
  const there = new Map();
  let asked = false;

  function range() {
    const whole = scroller === document.documentElement;
    const box = place.getBoundingClientRect();
    const top = whole ? -box.top : scroller.scrollTop;
    const seen = whole ? innerHeight : scroller.clientHeight;
    const first = Math.max(0, Math.floor(top / height) - BEYOND);
    return [first, Math.min(total, Math.ceil((top + seen) / height) + BEYOND)];
  }

  function draw() {
    asked = false;
    style(place, "height", `${total * height}px`);
    const [first, last] = range();
    for (const [index, row] of there) {
      if (index >= first && index < last) continue;
      if (row.contains(document.activeElement)) continue; // the focus is not to be lost
      row.remove();
      there.delete(index);
    }
    for (let index = first; index < last; index += 1) {
      if (there.has(index)) continue;
      const row = options.make(index);
      style(row, "transform", `translateY(${index * height}px)`);
      there.set(index, row);
      place.append(row);
    }
    options.shown?.(last);
  }

  function soon() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(draw);
  }

  const target = scroller === document.documentElement ? window : scroller;
  target.addEventListener("scroll", soon, { passive: true });
  const observer = new ResizeObserver(soon);
  observer.observe(scroller);

  return {
    /** There are so many rows now. @param {number} number */
    setTotal(number) {
      total = number;
      soon();
    },
    /** @param {number} number */
    setHeight(number) {
      if (number === height) return;
      height = number;
      this.clear();
    },
    /** Rows are to be made anew: all, or some. @param {(index: number) => boolean} [which] */
    clear(which) {
      for (const [index, row] of there) {
        if (which && !which(index)) continue;
        row.remove();
        there.delete(index);
      }
      soon();
    },
    /** @param {number} index */
    reveal(index) {
      if (scroller === document.documentElement) return there.get(index)?.scrollIntoView({ block: "nearest" });
      const top = index * height;
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      else if (top + height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + height - scroller.clientHeight;
      draw();
    },
    /** @param {number} index */
    row: (index) => there.get(index),
    draw,
    stop() {
      target.removeEventListener("scroll", soon);
      observer.disconnect();
    },
  };
}
