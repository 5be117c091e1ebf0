"""From a plan to something that runs: jobs, replays, scenarios."""
