// A grid of tiles that draws only what is in sight, so that thousands of photos scroll smoothly.
import { element } from "./dom.js";

const HEIGHT = 15.6, GAP = 0.6; // rem, as in studio.css

export class Grid {
  constructor(items, makeTile, label) {
    this.items = items; this.makeTile = makeTile; this.tiles = new Map();
    this.space = element("div", { class: "space" });
    this.box = element("div", { class: "grid", tabIndex: 0, role: "list", "aria-label": label }, this.space);
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.box);
  }
  measure() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const width = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--tile")) * rem;
    this.gap = GAP * rem; this.rowHeight = HEIGHT * rem + this.gap;
    this.columns = Math.max(1, Math.floor((this.box.clientWidth + this.gap) / (width + this.gap)));
    this.step = width + this.gap;
    this.space.style.height = Math.ceil(this.items.length / this.columns) * this.rowHeight + "px";
    for (const [index, tile] of this.tiles) this.place(tile, index);
    this.draw();
  }
  place(tile, index) {
    tile.style.left = (index % this.columns) * this.step + "px";
    tile.style.top = Math.floor(index / this.columns) * this.rowHeight + "px";
  }
  draw() {
    if (!this.columns) return;
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.rowHeight) - 1) * this.columns;
    const last = Math.min(this.items.length, (Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.rowHeight) + 1) * this.columns);
    for (const [index, tile] of this.tiles) if ((index < first || index >= last) && !tile.contains(document.activeElement)) { tile.remove(); this.tiles.delete(index); }
    for (let index = first; index < last; index++) if (!this.tiles.has(index)) this.add(index);
  }
  // Tiles stand in the document in the order of the items, which is the order in which Tab reaches them.
  add(index) {
    const tile = this.makeTile(this.items[index], index);
    tile.setAttribute("role", "listitem");
    tile.setAttribute("aria-setsize", this.items.length); tile.setAttribute("aria-posinset", index + 1);
    this.place(tile, index);
    const after = [...this.tiles.keys()].filter((other) => other > index);
    this.space.insertBefore(tile, after.length ? this.tiles.get(Math.min(...after)) : null);
    this.tiles.set(index, tile);
    return tile;
  }
  // Show newer items in place. Those that are gone stay where they are, so that nothing moves under the pointer.
  update(items) {
    const newer = new Map(items.map((item) => [item.digest, item])), before = this.items;
    this.items = before.map((item) => newer.get(item.digest) || { ...item, gone: true });
    const known = new Set(before.map((item) => item.digest));
    this.items.push(...items.filter((item) => !known.has(item.digest)));
    for (const [index, tile] of [...this.tiles]) if (JSON.stringify(before[index]) !== JSON.stringify(this.items[index])) this.redraw(index, tile);
    this.measure();
  }
  // Make a tile again. The focus stays on its button, or goes to the next photo that has such a button.
  redraw(index, tile) {
    const focused = tile.contains(document.activeElement) ? document.activeElement.dataset.act || "open" : null;
    tile.remove(); this.tiles.delete(index);
    const made = this.add(index), [shown, fresh] = [tile, made].map((found) => found.querySelector(".open img"));
    if (shown && fresh) fresh.replaceWith(shown); // a picture that is there does not flicker
    if (focused === null) return;
    const following = [...this.tiles].filter(([other]) => other > index).sort(([a], [b]) => a - b).map(([, found]) => found);
    for (const candidate of [made, ...following]) { const target = candidate.querySelector("[data-act='" + focused + "']"); if (target) { target.focus(); return; } }
    this.box.focus();
  }
}
