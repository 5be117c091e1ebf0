// The DAG run beside which Airflow shows this page: its start, its end and its table, from Airflow's own API.

import { ask } from "./api.js";

// Returns null if Airflow does not tell.
export async function runOf(dag, run) {
  const path = `../api/v2/dags/${encodeURIComponent(dag)}/dagRuns/${encodeURIComponent(run)}`;
  try {
    const said = await ask(path);
    if (!said.start_date) return null;
    const ended = said.end_date !== null;
    return { id: run, state: said.state, table: said.conf?.table, start: Date.parse(said.start_date), end: ended ? Date.parse(said.end_date) : Date.now(), ended };
  } catch {
    return null;
  }
}
