#!/bin/sh
# The steps of the image, in the folder with what is copied into it: build-layers.sh STEP
#
#   system      Debian's Java 17, an init that passes signals on, and a user (as root)
#   packages    the environment $VIRTUAL_ENV, with the packages of requirements.lock, each by its hash
#   wheel       lakehouse, in that environment
#   jars        the jars of Spark's readers, of Kafka and for S3, in $LAKEHOUSE_JARS
#
# pip and Ivy take index, proxy and repository from their own configuration.
set -eu

# pip compiles: the image's user can't write beside the packages, and each start would compile them again.
install() {
    "$VIRTUAL_ENV/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps "$@"
}

case "${1:-}" in
system)
    apt-get -qq update
    apt-get -qq install --yes --no-install-recommends openjdk-17-jre-headless tini >/dev/null
    rm -rf /var/lib/apt/lists/*
    useradd --system --uid 10001 --create-home --home-dir /home/lakehouse lakehouse
    install -d -o lakehouse /srv/lake /srv/airflow # a volume that is mounted there first belongs to the user, too
    ;;
packages)
    python3 -m venv "$VIRTUAL_ENV"
    install --require-hashes --requirement requirements.lock
    ;;
wheel)
    install lakehouse-*.whl
    "$VIRTUAL_ENV/bin/python" -m pip check >/dev/null
    ;;
jars)
    # Without Spark's classes kept ready: 220 MB, for seconds of a start.
    "$VIRTUAL_ENV/bin/lakehouse" setup --s3 --no-classes
    rm -r "$LAKEHOUSE_JARS/ivy-cache"
    ;;
*)
    echo "error: found step '${1:-}'; expected system, packages, wheel or jars" >&2
    exit 2
    ;;
esac
