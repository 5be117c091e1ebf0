// Numbers, times and values in readable form. Times are UTC, as in the `lakehouse` command.

import { h } from "./dom.js";

const NUMBER = new Intl.NumberFormat("en");
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });
const STEPS = [
  [60, "second", 1],
  [3600, "minute", 60],
  [86400, "hour", 3600],
  [Infinity, "day", 86400],
];

export const number = (value) => (value === null || value === undefined ? "–" : NUMBER.format(value));
export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

export const UNKNOWN = "Kafka has no such topic, or one that was made anew";

// How many records wait in Kafka, as text, and what to say about it. A topic of which that is not known is named: the
// sum of the others alone would read as if nothing waited. lag: null while Kafka is asked.
export function waiting(lag) {
  if (lag === null) return ["asking Kafka …", null];
  if (lag.error) return ["Kafka can't be asked", lag.error];
  if (lag.running === false) return ["Kafka does not answer", null];
  const topics = Object.entries(lag.topics);
  const known = topics.map(([, count]) => count).filter((count) => count !== null);
  const unknown = topics.filter(([, count]) => count === null).map(([name]) => name);
  const sum = known.length ? [`${plural(known.reduce((a, b) => a + b, 0), "record")} waiting in Kafka`] : [];
  const rest = unknown.length ? [`not known how many of ${unknown.join(", ")}`] : [];
  return [[...sum, ...rest].join("; "), unknown.length ? UNKNOWN : null];
}

export function time(ms) {
  return ms === null || ms === undefined ? "–" : `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")}Z`;
}

export function ago(ms) {
  const seconds = Math.max(0, (Date.now() - ms) / 1000);
  if (seconds < 5) return "just now";
  const [, unit, length] = STEPS.find(([limit]) => seconds < limit);
  return AGO.format(-Math.floor(seconds / length), unit);
}

export function seconds(value) {
  return value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`;
}

export function version(of) {
  const tick = of.tick === null || of.tick === undefined ? "" : ` · tick ${number(of.tick)}`;
  return `version ${number(of.version)}${tick}`;
}

// A value of a row. A number that JSON had as text (a decimal, a very large integer) is right-aligned, too.
export const isNumber = (value) => typeof value === "number" || (typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value));

export function value(of) {
  if (of === null || of === undefined) return h("span", { class: "null" }, "null");
  if (of === "") return h("span", { class: "null" }, "empty");
  return String(of);
}

export const named = (row) => Object.entries(row).map(([name, of]) => `${name}=${of === null ? "null" : of}`).join(", ");

export function table(columns, rows, attributes) {
  const head = h("tr", null, columns.map((one) => h("th", { scope: "col", class: one.right ? "right" : null }, one.name)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": attributes?.label },
    h("table", { class: attributes?.class }, h("thead", null, head), h("tbody", null, rows)),
  );
}

// Who decided what, and why, for a version that was made by hand; else nothing.
export function decided(of) {
  if (!of.decided) return "";
  const { kind, by, reason } = of.decided;
  return `${kind} by ${by}${reason ? `: ${reason}` : ""}`;
}
