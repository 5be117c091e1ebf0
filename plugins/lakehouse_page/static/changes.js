// The differences between two moments of a table: keys added, removed and changed, before and after.

import { ask, isOvertaken, ofTable } from "./api.js";
import { busy, h, hint, problem, show } from "./dom.js";
import { number, table, value } from "./format.js";

const LIMIT = 100;

// A row's columns and values; those that differ from the other side are highlighted.
export function side(row, other) {
  if (row === null) return h("span", { class: "null" }, "no row");
  const parts = Object.entries(row).map(([name, of]) => {
    const unlike = other !== null && other[name] !== of;
    return h("span", { class: unlike ? "pair unlike" : "pair" }, h("span", { class: "soft" }, `${name} `), value(of));
  });
  return parts.length ? parts : h("span", { class: "null" }, "the key alone");
}

export const keyOf = (key) => Object.entries(key).map(([name, of]) => h("span", { class: "pair" }, h("span", { class: "soft" }, `${name} `), value(of)));

// view: { app, table, at, from, key, onKey }.
export function changes(container, view) {
  const result = h("div", null, busy("Comparing …"));
  async function read() {
    try {
      const query = { a: view.from, b: view.at, limit: LIMIT };
      draw(await ask(ofTable(view.app, view.table, "difference"), { query, slot: "difference" }));
    } catch (error) {
      if (!isOvertaken(error)) show(result, problem(error.message));
    }
  }
  function draw(said) {
    const all = said.added + said.removed + said.changed;
    const between = `version ${number(said.from.version)} (${number(said.from.total)} rows) and version ${number(said.to.version)} (${number(said.to.total)} rows)`;
    const counts = h("p", { class: "counts" }, ["added", "removed", "changed"].map((kind) => h("span", { class: `badge ${kind}` }, `${number(said[kind])} ${kind}`)), h("span", { class: "soft" }, ` between ${between}`));
    const lines = said.changes.map((one) => h("tr", null,
      h("td", null, h("span", { class: `badge ${one.change}` }, one.change)), h("td", null, keyOf(one.key)),
      h("td", null, side(one.before, one.after)), h("td", null, side(one.after, one.before))));
    const columns = ["change", "key", "before", "after"].map((name) => ({ name }));
    show(
      result, counts,
      all ? table(columns, lines, { label: "Changes" }) : hint("No row differs."),
      all > said.changes.length ? hint(`The first ${number(said.changes.length)} of ${number(all)}, in the order of their keys.`) : null,
    );
  }
  show(container, result);
  read();
  return { moved: (from, at) => { view.from = from; view.at = at; read(); } };
}
