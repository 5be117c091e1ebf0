// Recovery drills: whether the table came back, in which ways, and how long each took.

import { ask, isOvertaken, ofApplication } from "./api.js";
import { busy, h, hint, problem, show } from "./dom.js";
import { number, plural, seconds, time } from "./format.js";

// view: { app, table }.
export function drills(container, view) {
  show(container, busy("Reading …"));
  ask(ofApplication(view.app, "/drills"), { slot: "drills" }).then(
    (all) => draw(container, view, all.filter((one) => one.table === view.table)),
    (error) => isOvertaken(error) || show(container, problem(error.message)),
  );
  return { moved: () => {} };
}

function draw(container, view, found) {
  if (!found.length) {
    show(container, hint(`No drill of ${view.table} yet. `, h("code", null, `lakehouse test drill ${view.table} --app …`), " runs one, and so does the DAG ", h("code", null, `${view.app}__recovery_drill`), "."));
    return;
  }
  const most = Math.max(...found.flatMap((drill) => drill.cases.flatMap((one) => one.restored.map((way) => way.seconds))), 0.1);
  show(container, found.map((drill, at) => one(drill, most, at === 0)));
}

function one(drill, most, open) {
  const cases = drill.cases.map((of) => h("div", { class: "case" },
    h("div", { class: "what" }, h("b", null, of.damage), h("span", { class: "soft" }, of.found_by ? `found in ${seconds(of.found_seconds)}: ${of.found_by}` : "NOT FOUND")),
    h("div", { class: "ways" }, of.restored.map((way) => bar(way, most)))));
  return h("details", { class: "drill", open },
    h("summary", null, h("span", { class: `badge ${drill.ok ? "added" : "removed"}` }, drill.ok ? "recovered" : "failed"), h("b", null, time(Date.parse(drill.at))), h("span", { class: "soft" }, `tick ${number(drill.tick)} · ${plural(drill.rows, "row")} · ${plural(drill.cases.length, "damage")} · ${seconds(drill.seconds)}`)),
    cases);
}

function bar(way, most) {
  if (way.equal === null) return h("div", { class: "way" }, h("span", { class: "name" }, way.way), h("span", { class: "soft reason" }, way.reason));
  const meter = h("meter", { min: "0", max: String(most), value: String(way.seconds), "aria-label": `${way.way}: ${seconds(way.seconds)}` });
  return h("div", { class: "way" }, h("span", { class: "name" }, way.way), meter, h("span", { class: "took" }, seconds(way.seconds)),
    way.equal ? h("span", { class: "good" }, "equal") : h("span", { class: "bad" }, way.lost === null ? "NOT EQUAL" : `NOT EQUAL: ${plural(way.lost, "key")} lost or wrong`));
}
