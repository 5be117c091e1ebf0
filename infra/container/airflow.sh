#!/bin/bash
# Airflow as the only process of a container: up, until SIGTERM comes or it is no longer healthy; then down.
# Arguments: those of `lakehouse airflow up`, such as --app /srv/shop/app.py --config /etc/lakehouse/lakehouse.toml
set -eu

config=()
for ((number = 1; number < $#; number++)); do
    [ "${!number}" != --config ] || { next=$((number + 1)) && config=(--config "${!next}"); }
done

down() {
    lakehouse airflow down "${config[@]}"
    exit "$1"
}

trap 'down 0' TERM INT
lakehouse airflow up "$@"
while lakehouse airflow status "${config[@]}" >/dev/null; do
    sleep 15 &
    wait $!
done
echo "error: Airflow is not healthy any more" >&2
down 1
