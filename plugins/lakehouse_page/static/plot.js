// The versions of a table over time: its rows after each commit, and the two moments.

import uPlot from "./vendor/uPlot.esm.js";
import { colour, h } from "./dom.js";
import { decided, number, time, version } from "./format.js";

const HEIGHT = 156;
const WHOLE = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power)); // of rows

// Times of the axis, in UTC as everywhere, as precise as their distance needs.
const clock = (every) => (at) => {
  const said = new Date(at * 1000).toISOString();
  return every >= 86400 ? said.slice(0, 10) : every >= 60 ? `${said.slice(5, 10)} ${said.slice(11, 16)}` : said.slice(11, 19);
};

// versions: the oldest first. marks(): the versions to mark. onPick: called with the choice of a click on the plot.
export function plot(container, versions, by, marks, onPick) {
  const line = colour("--accent");
  const [grid, text, second] = [colour("--line"), colour("--soft"), colour("--second")];
  const xs = versions.map((one, at) => (by === "time" ? one.time_ms / 1000 : at));
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const told = h("p", { class: "told", "aria-hidden": "true" });
  const tell = (at) => {
    const one = versions[at ?? versions.length - 1];
    const did = [["inserted", "inserted"], ["updated", "updated"], ["deleted", "deleted"]]
      .filter(([name]) => one[name])
      .map(([name, word]) => `${number(one[name])} ${word}`);
    told.textContent = [version(one), one.operation, time(one.time_ms), `${number(one.rows)} rows`, ...did, decided(one)].filter(Boolean).join(" · ");
  };
  const mark = (picture) => {
    const { ctx, bbox } = picture;
    for (const [name, stroke] of [["from", second], ["at", line]]) {
      const index = versions.findIndex((one) => one.version === marks()[name]);
      if (index < 0) continue;
      const x = Math.round(picture.valToPos(xs[index], "x", true));
      ctx.save();
      ctx.strokeStyle = stroke;
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.setLineDash(name === "from" ? [4 * devicePixelRatio, 3 * devicePixelRatio] : []);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.restore();
    }
  };
  const options = {
    width: Math.max(container.clientWidth, 200),
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    padding: [10, 34, 0, 0], // half a label of the axis is right of the last moment
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    scales: { x: { time: by === "time" }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.1] } },
    axes: [
      by === "time" ? { ...axis, size: 28, space: 96, values: (_, at, axisAt, space, every) => at.map(clock(every)) } : { ...axis, size: 28, values: (_, at) => at.map((n) => (Number.isInteger(n) && versions[n] ? `v${versions[n].version}` : "")) },
      { ...axis, size: 56, incrs: WHOLE, values: (_, at) => at.map(number) },
    ],
    series: [
      {},
      { label: "rows", stroke: line, fill: colour("--accent-wash"), width: 1.5, paths: uPlot.paths.stepped({ align: 1 }), points: { show: versions.length < 60, size: 5 } },
    ],
    hooks: {
      draw: [mark],
      setCursor: [(picture) => tell(picture.cursor.idx)],
      ready: [(picture) => picture.over.addEventListener("click", () => picture.cursor.idx !== null && onPick(versions[picture.cursor.idx]))],
    },
  };
  container.replaceChildren();
  const picture = new uPlot(options, [xs, versions.map((one) => one.rows)], container);
  container.append(told);
  tell(null);
  const watch = new ResizeObserver(() => {
    if (!container.isConnected) return watch.disconnect();
    if (container.clientWidth && container.clientWidth !== picture.width) picture.setSize({ width: container.clientWidth, height: HEIGHT });
  });
  watch.observe(container);
  return { redraw: () => picture.redraw(false, false) };
}
