// The DAG run beside which Airflow shows this page: from when to when it ran, and of which table, as Airflow's own API tells.

import { ask } from "./api.js";

// Returns null where Airflow does not tell.
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
