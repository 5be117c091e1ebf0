#!/bin/bash
# What a container of the image runs: the command that is named, such as `lakehouse run`; or an executor.
#
# Spark on Kubernetes starts an executor with the one argument `executor`, and says the rest in SPARK_...: there its own
# image has a script of the same name.
set -eu

if [ "${1:-}" != executor ]; then
    exec "$@"
fi

spark_home=$(python3 -c 'import importlib.util; print(importlib.util.find_spec("pyspark").submodule_search_locations[0])')
class_path="${SPARK_CONF_DIR:-}:${SPARK_CLASSPATH:-}:$spark_home/jars/*"
java_options=()
for ((number = 0; ; number++)); do
    name="SPARK_JAVA_OPT_$number"
    [ -n "${!name:-}" ] || break
    java_options+=("${!name}")
done

exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${java_options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "$class_path" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
