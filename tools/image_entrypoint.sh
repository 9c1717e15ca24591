#!/bin/bash
# What a container of the image begins with: a command; or `executor`, the one argument that Spark on
# Kubernetes gives the pods of its executors, whose settings are in the environment.
set -euo pipefail

if [ "${1:-}" != executor ]; then
    exec "$@"
fi

# SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...: one JVM option each.
options=()
for ((i = 0; ; i++)); do
    name="SPARK_JAVA_OPT_$i"
    [ -n "${!name+set}" ] || break
    options+=("${!name}")
done
exec java "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
