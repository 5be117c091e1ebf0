// The history of a row by its key, and its explanation: the records behind it, step by step.

import { ask, isOvertaken, ofTable } from "./api.js";
import { keyOf, side } from "./changes.js";
import { busy, h, hint, problem, show } from "./dom.js";
import { decided, named, number, plural, table, time, value } from "./format.js";

const LIMIT = 40;

// view: { app, table, at, key, columns, onKey }.
export function history(container, view) {
  const input = h("input", { type: "search", id: "key", placeholder: view.columns.join(","), value: view.key || "", autocomplete: "off", spellcheck: "false", required: true });
  const result = h("div", { id: "history" });
  const explained = h("div", { id: "explained" });
  const button = h("button", { type: "button", id: "explain", onclick: explain }, "Explain");
  let found = [];

  async function read(before) {
    if (before === undefined) {
      found = [];
      show(result, busy("Reading its changes …"));
    }
    try {
      const query = { key: view.key, before, limit: LIMIT };
      draw(await ask(ofTable(view.app, view.table, "history"), { query, slot: "history" }));
    } catch (error) {
      if (!isOvertaken(error)) show(result, problem(error.message));
    }
  }
  function draw(said) {
    found = [...found, ...said.changes];
    const words = { inserted: "added", updated: "changed", deleted: "removed" };
    const windows = found.some((one) => "window_start" in one.key);
    const lines = found.map((one) => h("tr", null,
      h("td", null, h("span", { class: `badge ${words[one.change]}` }, one.change)), h("td", { class: "right" }, number(one.version)), h("td", { class: "right" }, number(one.tick)),
      h("td", null, time(one.time_ms), one.decided ? h("div", { class: "decided" }, decided(one)) : null), windows ? h("td", null, value(one.key.window_start)) : null, h("td", null, side(one.before, one.after)), h("td", null, side(one.after, one.before))));
    const columns = [{ name: "change" }, { name: "version", right: true }, { name: "tick", right: true }, { name: "committed" }, ...(windows ? [{ name: "window from" }] : []), { name: "before" }, { name: "after" }];
    const older = said.older === null ? null : h("button", { type: "button", class: "quiet", onclick: () => read(said.older) }, "Look at older versions");
    const none = said.older === null ? `No version that can be read has changed a row of key ${view.key}.` : "None in the newest versions.";
    show(result, found.length ? table(columns, lines, { label: `History of ${view.key}` }) : hint(none), said.gone ? hint(`Older changes are gone: ${said.gone}`) : null, older);
  }
  async function explain() {
    button.disabled = true;
    show(explained, busy("Folding its records again, in a process of its own: a second or two, longer if Spark is needed …"));
    try {
      const version = view.at === "now" ? null : Number(view.at);
      const rows = await ask(ofTable(view.app, view.table, "explain"), { body: { key: view.key, version }, slot: "explain" });
      show(explained, rows.map((row) => told(row)));
    } catch (error) {
      if (!isOvertaken(error)) show(explained, problem(error.message));
    }
    button.disabled = !view.key;
  }
  function askFor(key) {
    view.key = key;
    input.value = key;
    button.disabled = !key;
    show(explained);
    view.onKey(key);
    read();
  }
  const submit = (event) => {
    event.preventDefault();
    if (input.value) askFor(input.value);
  };
  show(container,
    h("form", { class: "bar", onsubmit: submit }, h("label", { for: "key" }, "Key"), input, h("button", { type: "submit", class: "quiet" }, "Show"), h("span", { class: "grow" }), button),
    result, explained);
  button.disabled = !view.key;
  if (view.key) read();
  else show(result, hint("Type a key, or choose one under Rows. The values of a key of several are joined by commas; one with a comma stands in quotes."));
  return { moved: (version) => { view.at = String(version); show(explained); } };
}

// The value of a record: its columns, or the text of one that has none.
function recorded(of) {
  return of !== null && typeof of === "object" ? h("td", null, keyOf(of)) : h("td", { class: "mono", title: String(of ?? "") }, value(of));
}

function told(row) {
  const columns = [{ name: "record" }, { name: "event time" }, { name: "tick", right: true }, { name: "value" }, { name: "did" }, { name: "row after" }];
  let before = null;
  const lines = row.steps.map((step) => {
    const line = h("tr", null,
      h("td", { class: "mono" }, step.topic ? `${step.topic}/${step.partition}@${step.offset}` : "by hand"), h("td", null, time(step.event_time_ms)), h("td", { class: "right" }, number(step.tick)),
      recorded(step.value), h("td", null, h("span", { class: "badge" }, step.did), step.reason ? ` ${step.reason}` : null), h("td", null, side(step.row, before ?? {})));
    before = step.row;
    return line;
  });
  const left = row.records - row.steps.length;
  return h("div", { class: "told-row" },
    h("h3", null, named(row.key)),
    left > 0 ? hint(`The last ${plural(row.steps.length, "record")} of ${number(row.records)}.`) : null,
    table(columns, lines, { label: "The records behind the row" }),
    h("p", { class: row.agrees ? "verdict good" : "verdict bad" }, row.agrees ? "The table has the same." : "NOT THE SAME.", " ", row.found ? named(row.found) : "No row.", row.note ? ` ${row.note}.` : ""));
}
