// The page: the application, its lineage, and the selection in it. The lake is read again every half minute.

import { ask, isOvertaken, ofApplication } from "./api.js";
import { h, hint, problem, show } from "./dom.js";
import { UNKNOWN, ago, number, plural, time, waiting } from "./format.js";
import { isWritten, lineage } from "./lineage.js";
import { records } from "./records.js";
import { runOf } from "./run.js";
import { change, state } from "./state.js";
import { TableView } from "./table.js";

const AGAIN_MS = 30_000;
const at = (id) => document.getElementById(id);
let facts = null;
let lag = null;
let run = null;
let view = null;
let shown = null;

function theme() {
  const chosen = localStorage.getItem("theme"); // Airflow's own switch; without one the system's
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

async function start() {
  theme();
  addEventListener("storage", theme);
  try {
    const { applications, problems } = await ask("api/applications");
    const names = applications.map((one) => one.name);
    const ofDag = state().dag?.split("__")[0];
    const name = [state().app, ofDag, names[0]].find((one) => names.includes(one));
    show(at("problem"), problems.map(problem));
    if (!name) {
      at("problem").append(hint("There is no application yet. ", h("code", null, "lakehouse airflow add --app app.py"), " adds one."));
      return;
    }
    if (ofDag && !names.includes(ofDag)) at("problem").append(hint(`The DAG ${state().dag} is of no application; this is ${name}.`));
    show(at("application"), names.map((one) => h("option", { value: one, selected: one === name }, one)));
    run = ofDag === name && state().run ? await runOf(state().dag, state().run) : null;
    tellRun();
    at("application").addEventListener("change", (event) => {
      change({ app: event.target.value, table: null, node: null, at: null, from: null, key: null });
      read(event.target.value);
    });
    at("refresh").addEventListener("click", () => read(at("application").value));
    await read(name);
    setInterval(() => document.visibilityState === "visible" && read(at("application").value), AGAIN_MS);
  } catch (error) {
    show(at("problem"), problem(error.message));
  }
}

async function read(name) {
  try {
    const found = await ask(ofApplication(name), { slot: "application" });
    if (facts?.name !== name) lag = null;
    facts = found;
    at("main").hidden = false;
    glance();
    select(chosen(), false);
  } catch (error) {
    if (!isOvertaken(error)) show(at("problem"), problem(error.message));
    return;
  }
  ask(ofApplication(name, "/lag"), { slot: "lag" }).then(
    (found) => tellLag(found),
    (error) => isOvertaken(error) || tellLag({ error: error.message }),
  );
}

function tellLag(found) {
  lag = found;
  glance();
  if (shown?.kind === "topic") select(shown, false);
}

function glance() {
  const [kafka, why] = waiting(lag);
  const last = Math.max(0, ...Object.values(facts.topics).map((one) => one?.last_commit_ms || 0));
  show(at("glance"), h("span", { title: facts.lake }, `bronze at tick ${number(facts.tick)}`), last ? h("span", { title: time(last) }, `last commit ${ago(last)}`) : null, h("span", { title: why }, kafka));
}

function tellRun() {
  at("run").hidden = run === null;
  if (run) show(at("run"), h("b", null, run.id), ` ${run.state}, ${time(run.start)} to ${run.ended ? time(run.end) : "now"}: the moments below are those before it and after it.`);
}

// The node of the address, or the table of the run; else the first table.
function chosen() {
  const { node } = state();
  const table = state().table ?? run?.table;
  const isMade = (one) => one.kind === "table" && facts.tables[one.name];
  return facts.nodes.find((one) => one.id === node) || facts.nodes.find((one) => one.kind === "table" && one.name === table) || facts.nodes.find(isMade) || facts.nodes[0];
}

function select(node, byHand) {
  if (byHand && node.id !== shown?.id) change({ app: facts.name, node: node.kind === "table" ? null : node.id, table: node.kind === "table" ? node.name : null, at: null, from: null, key: null });
  lineage(at("lineage"), facts, node.id, (one) => select(one, true));
  const isSame = shown?.id === node.id && view?.app === facts.name;
  shown = node;
  const table = node.kind === "table" ? facts.tables[node.name] : null;
  if (table) {
    if (isSame) return view.update(table, quarantined(node));
    view = new TableView(at("selected"), facts.name, node.name, table, run);
    return view.start(quarantined(node));
  }
  view = null;
  const written = node.kind === "changelog" || isWritten(facts, node);
  const recordsAt = written ? (isSame && document.getElementById("records")) || h("div", { id: "records" }) : null;
  show(at("selected"), h("div", { class: "card" },
    h("div", { class: "title" }, h("span", { class: `kind ${node.kind}` }, node.kind), h("h2", null, node.name)),
    other(node, written), recordsAt));
  if (written && !(isSame && recordsAt.hasChildNodes())) records(recordsAt, facts.name, node.name);
}

// The number of records that did not fit, in all streams that a table reads.
function quarantined(node) {
  const found = new Set();
  const walk = (id) => facts.edges.filter(([, to]) => to === id).forEach(([from]) => found.has(from) || (found.add(from), walk(from)));
  walk(node.id);
  return facts.nodes.filter((one) => one.kind === "stream" && found.has(one.id)).reduce((sum, one) => sum + (facts.streams[one.name]?.quarantined || 0), 0);
}

function other(node, written) {
  const tell = (all) => h("dl", { class: "facts" }, all.map(([name, of, more]) => h("div", null, h("dt", null, name), h("dd", null, of), h("dd", { class: "soft" }, more))));
  if (node.kind === "topic") {
    const topic = facts.topics[node.name];
    const waits = lag?.topics?.[node.name];
    const why = lag === null ? "asking Kafka …" : lag.error || (waits === null && lag.running !== false ? `not known: ${UNKNOWN}` : "in Kafka, not yet in bronze");
    if (!topic && written) return hint("A Kafka topic to which this application writes a stream.");
    if (!topic) return hint(`Bronze has no record of this topic yet.${waits ? ` ${plural(waits, "record")} ${waits === 1 ? "waits" : "wait"} in Kafka.` : ""}`);
    return tell([["Records in bronze", number(topic.rows), "bytes as they were"], ["Waiting", number(waits), why], ["Last commit", ago(topic.last_commit_ms), time(topic.last_commit_ms)]]);
  }
  if (node.kind === "stream") {
    const { quarantined: open = 0, refused = [] } = facts.streams[node.name] || {};
    const rules = refused.map((one) => [`Expected ${one.expectation}`, number(one.open), `of ${plural(one.records, "record")} that did not meet it`]);
    return tell([["Quarantined", number(open), "records that did not fit its schema, or an expectation"], ...rules]);
  }
  if (node.kind === "changelog") return hint("A compacted Kafka topic: one record for each change of its table; a delete is a tombstone.");
  if (node.kind === "function") return hint("A Python function that is told each record, by the job of the application.");
  return hint("This table is not in the lake yet. The first run of the application makes it.");
}

start();
