# One image for the operator, observers, runs with their Spark executors, and lock servers.
#
# `make image` builds it with neither a registry nor a network inside the build: base and wheels are
# made before. With a registry, take any Debian as the base:
#
#     python tools/image.py --context build/image
#     docker build --build-arg BASE=debian:bookworm-slim -t hudi-operator build/image
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS system
# Nothing is fetched where the base has them already.
RUN { command -v java && command -v python3 && command -v tini; } >/dev/null || { \
        mkdir -p /usr/share/man/man1 && apt-get update && apt-get install -y --no-install-recommends \
            ca-certificates openjdk-17-jre-headless python3 tini && rm -rf /var/lib/apt/lists/*; }
# Hadoop's file systems, which Spark uses, start only for a user with a name.
RUN echo 'hudi:x:10001:10001:Hudi Operator:/tmp:/usr/sbin/nologin' >>/etc/passwd \
    && echo 'hudi:x:10001:' >>/etc/group

FROM system AS packages
COPY pip.whl /build/pip.whl
COPY wheels/ /build/wheels/
# pip runs from its own wheel, so that neither it nor the wheels get into the image.
RUN python3 -m venv --without-pip /opt/hudi-operator \
    && /opt/hudi-operator/bin/python /build/pip.whl/pip install \
        --quiet --no-index --no-deps --no-cache-dir /build/wheels/*.whl
# One path for Spark, whichever Python the base has.
RUN cd /opt/hudi-operator && ln -s lib/python3.*/site-packages/pyspark spark \
    && rm -rf spark/examples spark/jars/connect-repl

# A layer of its own: of two builds, mostly this one alone differs.
FROM packages AS project
COPY project/ /build/project/
RUN /opt/hudi-operator/bin/python /build/pip.whl/pip install \
        --quiet --no-index --no-deps --no-cache-dir --root /installed /build/project/*.whl

FROM system
COPY --from=packages /opt/hudi-operator/ /opt/hudi-operator/
COPY entrypoint.sh /usr/local/bin/entrypoint
COPY --from=project /installed/ /
# PYTHONSAFEPATH: a file in the working folder is never imported in place of ours.
ENV PATH=/opt/hudi-operator/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYSPARK_PYTHON=/opt/hudi-operator/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/hudi-operator/bin/python \
    SPARK_HOME=/opt/hudi-operator/spark
# By number, so that Kubernetes can tell that it is not root.
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/entrypoint"]
CMD ["hudi-operator", "--help"]
