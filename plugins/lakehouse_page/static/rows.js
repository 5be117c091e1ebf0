// A table at a moment: its first rows, in the order of their keys.

import { ask, isOvertaken, ofTable } from "./api.js";
import { busy, h, hint, problem, show } from "./dom.js";
import { isNumber, number, plural, table, value } from "./format.js";

const LIMIT = 50;

// view: { app, table, at, onKey, onMoment }.
export function rows(container, view) {
  const result = h("div", null, busy("Reading …"));
  const search = h("input", { type: "search", id: "prefix", placeholder: "key begins with …", autocomplete: "off", spellcheck: "false" });
  const named = h("input", { type: "text", id: "named", placeholder: "tick:7, 2026-01-31T12:00Z", title: "tick:7; a time of the records: 2026-01-31T12:00Z; one of the commits: commit:2026-01-31T12:00Z", autocomplete: "off", spellcheck: "false" });
  let limit = LIMIT;
  let pause = null;

  async function read() {
    try {
      const said = await ask(ofTable(view.app, view.table, "rows"), { query: { at: view.at, prefix: search.value, limit }, slot: "rows" });
      draw(said);
    } catch (error) {
      if (!isOvertaken(error)) show(result, problem(error.message));
    }
  }
  function draw(said) {
    view.onMoment(said.version);
    const keys = new Set(said.key);
    const right = said.columns.map((column, at) => said.rows.length > 0 && said.rows.every((row) => row[at] === null || isNumber(row[at])) && !/string|binary/.test(column.type));
    const lines = said.rows.map((row, n) => {
      let first = true;
      const cells = row.map((one, at) => {
        const isKey = keys.has(said.columns[at].name);
        const content = isKey && first && said.keys[n] !== null ? h("button", { type: "button", class: "link", title: "Its history", onclick: () => view.onKey(said.keys[n]) }, value(one)) : value(one);
        if (isKey) first = false;
        return h("td", { class: right[at] ? "right" : null, title: typeof one === "string" && one.length > 40 ? one : null }, content);
      });
      return h("tr", null, cells);
    });
    const columns = said.columns.map((column, at) => ({ name: [column.name, keys.has(column.name) ? h("span", { class: "tag" }, "key") : null].filter(Boolean), right: right[at] }));
    const more = said.more && limit < 500 ? h("button", { type: "button", class: "quiet", onclick: () => { limit = Math.min(500, limit * 4); read(); } }, "Show more") : null;
    const count = search.value ? `${plural(said.rows.length, "row")}${said.more ? " and more" : ""} whose key begins with “${search.value}”` : `${plural(said.rows.length, "row")} of ${number(said.total)}`;
    show(
      result,
      said.rows.length ? table(columns, lines, { label: "Rows", class: "rows" }) : hint("No such row at this moment."),
      h("p", { class: "hint foot" }, `${count}, at version ${number(said.version)}. `, more),
    );
  }
  search.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(read, 200);
  });
  const form = h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); if (named.value.trim()) { view.at = named.value.trim(); read(); } } },
    h("label", { for: "prefix" }, "Find"), search, h("span", { class: "grow" }),
    h("label", { for: "named" }, "Moment by name"), named, h("button", { type: "submit", class: "quiet" }, "Go"));
  show(container, form, result);
  read();
  return { moved: (version) => { view.at = String(version); limit = LIMIT; named.value = ""; read(); } };
}
