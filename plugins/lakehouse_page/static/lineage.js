// The lineage, drawn: topics, streams, tables and the topics of their changelogs, from left to right.

import { s, show } from "./dom.js";
import { number, plural } from "./format.js";

const KINDS = ["topic", "stream", "table", "changelog"];  // the columns; a function is in the last one
const BOX = { width: 208, height: 54, gap: 12, between: 76, margin: 2 };
const NAME_MAX = 24;

function metric(node, facts) {
  switch (node.kind) {
    case "topic":
      return facts.topics[node.name] ? plural(facts.topics[node.name].rows, "record") : "not read yet";
    case "stream":
      return facts.streams[node.name]?.quarantined ? `${number(facts.streams[node.name].quarantined)} quarantined` : "none quarantined";
    case "table":
      return facts.tables[node.name] ? plural(facts.tables[node.name].rows, "row") : "not made yet";
  }
  return node.kind === "function" ? "is told each record" : "compacted topic";
}

// Whether a node is a topic to which a stream is written.
export const isWritten = (facts, node) => node.kind === "topic" && facts.edges.some(([, to]) => to === node.id);

// Columns by kind, with the topics that a stream is written to at the end; nodes from the same source are neighbours in their column.
export function places(facts) {
  const tables = new Set(facts.nodes.filter((node) => node.kind === "table").map((node) => node.id));
  // A table that reads tables is to the right of them.
  const depths = new Map();
  const depth = (id) => {
    const before = () => facts.edges.filter(([from, to]) => to === id && tables.has(from)).map(([from]) => depth(from) + 1);
    if (!depths.has(id)) depths.set(id, Math.max(0, ...before()));
    return depths.get(id);
  };
  const column = (node) => (isWritten(facts, node) || node.kind === "function" ? "changelog" : node.kind);
  const columns = KINDS.flatMap((kind) => {
    const some = facts.nodes.filter((node) => column(node) === kind);
    const all = kind === "table" ? [...new Set(some.map((node) => depth(node.id)))].sort((a, b) => a - b) : [0];
    return all.map((nth) => (kind === "table" ? some.filter((node) => depth(node.id) === nth) : some));
  }).filter((some) => some.length);
  const height = Math.max(...columns.map((some) => some.length)) * (BOX.height + BOX.gap) - BOX.gap;
  const found = new Map();
  columns.forEach((some, nth) => {
    const wanted = (node) => {
      const from = facts.edges.filter(([, to]) => to === node.id).map(([at]) => found.get(at)?.y).filter((y) => y !== undefined);
      return from.length ? from.reduce((a, b) => a + b, 0) / from.length : 0;
    };
    const sorted = nth ? [...some].sort((a, b) => wanted(a) - wanted(b)) : some;
    const taken = sorted.length * (BOX.height + BOX.gap) - BOX.gap;
    sorted.forEach((node, row) => {
      const x = BOX.margin + nth * (BOX.width + BOX.between);
      found.set(node.id, { x, y: BOX.margin + (height - taken) / 2 + row * (BOX.height + BOX.gap) });
    });
  });
  const width = columns.length * (BOX.width + BOX.between) - BOX.between;
  return { found, width: width + 2 * BOX.margin, height: height + 2 * BOX.margin };
}

// All nodes upstream and downstream of a node.
function related(id, edges) {
  const found = new Set([id]);
  const walk = (at, from, to) => {
    for (const edge of edges) {
      if (edge[from] === at && !found.has(edge[to])) {
        found.add(edge[to]);
        walk(edge[to], from, to);
      }
    }
  };
  walk(id, 0, 1);
  walk(id, 1, 0);
  return found;
}

export function lineage(container, facts, selected, onSelect) {
  const { found, width, height } = places(facts);
  const near = selected ? related(selected, facts.edges) : new Set(facts.nodes.map((node) => node.id));
  const edges = facts.edges.map(([from, to]) => {
    const [a, b] = [found.get(from), found.get(to)];
    const [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
    const bend = Math.max((x2 - x1) / 2, 24);
    const path = `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
    return s("path", { d: path, class: near.has(from) && near.has(to) ? "edge near" : "edge" });
  });
  const nodes = facts.nodes.map((node) => {
    const { x, y } = found.get(node.id);
    const select = () => onSelect(node);
    const onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      select();
    };
    const bad = node.kind === "stream" && facts.streams[node.name]?.quarantined;
    const behind = node.kind === "table" && facts.tables[node.name]?.behind_ticks;
    return s(
      "g",
      {
        class: `node ${node.kind}${near.has(node.id) ? "" : " far"}`, transform: `translate(${x},${y})`, tabindex: "0", role: "button",
        "aria-pressed": String(node.id === selected), "aria-label": `${node.kind} ${node.name}, ${metric(node, facts)}`,
        "data-node": node.id, onclick: select, onkeydown,
      },
      s("title", null, `${node.kind} ${node.name}`),
      s("rect", { width: BOX.width, height: BOX.height, rx: 6 }),
      s("text", { x: 12, y: 16, class: "kind" }, node.kind),
      s("text", { x: 12, y: 32, class: "name" }, node.name.length > NAME_MAX ? `${node.name.slice(0, NAME_MAX - 1)}…` : node.name),
      s("text", { x: 12, y: 46, class: "metric" }, metric(node, facts)),
      bad || behind ? s("circle", { cx: BOX.width - 14, cy: 14, r: 4, class: "mark" }) : null,
    );
  });
  const [scrolled, focused] = [container.scrollLeft, document.activeElement?.getAttribute?.("data-node")];
  const picture = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Lineage" }, edges, nodes);
  show(container, picture);
  const scale = picture.getBoundingClientRect().width / width;
  const [left, right] = [0, BOX.width].map((more) => ((found.get(selected)?.x ?? 0) + more) * scale);
  const isSeen = left >= scrolled && right <= scrolled + container.clientWidth;
  container.scrollLeft = isSeen ? scrolled : (left + right - container.clientWidth) / 2;
  if (focused) [...picture.querySelectorAll(".node")].find((node) => node.dataset.node === focused)?.focus();
}
