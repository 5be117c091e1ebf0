// A topic that the application writes: its newest records in Kafka.

import { ask, isOvertaken, ofApplication } from "./api.js";
import { busy, h, hint, problem, show } from "./dom.js";
import { table, value } from "./format.js";

const COLUMNS = [{ name: "time" }, { name: "partition", right: true }, { name: "offset", right: true }, { name: "key" }, { name: "value" }];

export function records(container, app, topic) {
  show(container, busy("Asking Kafka …"));
  ask(ofApplication(app, `/topics/${encodeURIComponent(topic)}/records`), { body: {}, slot: "records" }).then(
    (found) => draw(container, found),
    (error) => isOvertaken(error) || show(container, problem(error.message)),
  );
}

function draw(container, found) {
  const lines = found.map((one) => h("tr", null,
    h("td", null, one.timestamp), h("td", { class: "right" }, one.partition), h("td", { class: "right" }, one.offset),
    h("td", { title: one.key_reason }, value(one.key)), h("td", { title: one.value_reason }, value(one.value))));
  show(container, h("h3", null, "Newest records"), lines.length ? table(COLUMNS, lines, { label: "Newest records", class: "rows" }) : hint("The topic has no record yet."));
}
