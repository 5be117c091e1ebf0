#!/bin/bash
# Airflow as the only process of a container: up, until SIGTERM comes or it is no longer healthy; then down.
# Arguments: those of `lakehouse airflow up`, such as --app /srv/shop/app.py --config /etc/lakehouse/lakehouse.toml
set -eu

config=()
arguments=("$@")
for number in "${!arguments[@]}"; do
    case "${arguments[number]}" in
    --config) config=(--config "${arguments[number + 1]:-}") ;;
    --config=*) config=("${arguments[number]}") ;;
    esac
done

down() {
    lakehouse airflow down "${config[@]}"
    exit "$1"
}

trap 'down 0' TERM INT
lakehouse airflow up "$@"
# One bad look may be a busy machine: a part that answers late, or that its supervisor is starting again. `down` would
# end the running tasks for that.
bad_looks=0
while true; do
    if lakehouse airflow status "${config[@]}" >/dev/null; then
        bad_looks=0
    else
        bad_looks=$((bad_looks + 1))
    fi
    [ "$bad_looks" -lt 3 ] || break
    sleep 15 &
    wait $!
done
echo "error: Airflow is not healthy any more, by three looks in a row" >&2
down 1
