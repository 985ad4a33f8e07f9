"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// Charts are drawn when they come near the viewport, the first hundred also while the browser is idle, and all drawn ones
// again when the theme changes.
function layoutOf(key, width, height) {
  const own = figures[key].layout;
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
  const narrow = width < 420;
  const layout = {
    ...own,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("--ink"), size: narrow ? 10 : 12 },
    margin: { l: narrow ? 44 : 56, r: 12, t: 10, b: 48 + 20 * legendRows(key, width) },
    height,
    legend: {
      orientation: "h", yref: "container", y: 0, yanchor: "bottom", maxheight: 2000, font: { size: narrow ? 9 : 11 },
    },
    hoverlabel: { namelength: -1 },
    autosize: true,
  };
  for (const name of ["xaxis", "yaxis", "yaxis2"]) if (own[name]) layout[name] = { ...axis, ...own[name] };
  return layout;
}

// An upper bound: as if every entry were as wide as the longest.
function legendRows(key, width) {
  const names = figures[key].data.filter((trace) => trace.name && trace.showlegend !== false).map((trace) => trace.name);
  if (names.length < 2) return 0;
  const column = 46 + (width < 420 ? 5.2 : 6.2) * Math.max(...names.map((name) => name.length));
  return Math.ceil(names.length / Math.max(1, Math.floor((width - 68) / column)));
}

function draw(element) {
  const key = element.dataset.chart;
  element.dataset.height ??= element.clientHeight;
  const height = Number(element.dataset.height) + 20 * Math.max(0, legendRows(key, element.clientWidth) - 1);
  element.style.height = `${height}px`;
  element.dataset.drawn = "yes";
  const data = figures[key].data.map((trace) =>
    trace.marker && trace.marker.line && trace.marker.line.color === "#111111"
      ? { ...trace, marker: { ...trace.marker, line: { ...trace.marker.line, color: colour("--ink") } } }
      : trace);
  Plotly.react(element, data, layoutOf(key, element.clientWidth, height), { responsive: true, displaylogo: false, displayModeBar: false });
}

const charts = [...document.querySelectorAll(".chart")];
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
}, { rootMargin: "600px" });
charts.forEach((element) => observer.observe(element));
const idle = window.requestIdleCallback || ((callback) => setTimeout(callback, 50));
function drawNext() {
  const next = charts.slice(0, 100).find((element) => !element.dataset.drawn);
  if (next) { draw(next); idle(drawNext); }
}
idle(drawNext);
const redraw = () => charts.filter((element) => element.dataset.drawn).forEach(draw);
window.addEventListener("beforeprint", () => charts.forEach(draw));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  redraw();
});

// A click on a column header sorts by it, a second click reverses the order; cells without a value stay last.
function sort(header) {
  const table = header.closest("table");
  const column = [...header.parentNode.children].indexOf(header);
  const descending = header.getAttribute("aria-sort") !== "descending";
  for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const value = (row) => {
    const cell = row.children[column];
    return cell.tagName === "TH" ? cell.textContent : cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "string" ? x.localeCompare(y) : x - y;
    return descending ? -order : order;
  };
  const body = table.tBodies[0];
  [...body.rows].sort(compare).forEach((row) => body.append(row));
}
for (const header of document.querySelectorAll(".sortable thead th")) {
  header.addEventListener("click", () => sort(header));
  header.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(header); });
}
