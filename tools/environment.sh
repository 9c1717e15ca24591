# Functions for environments made from a lock; for sourcing, from the root of the repository.

# One line that changes when one of the files, this folder's place or the Python does.
fingerprint() {
    echo "$(cat "$@" | cksum) $PWD $("$python" -V)"
}

# is_filled ENVIRONMENT FINGERPRINT
is_filled() {
    [ "$(cat "$1/filled-from" 2>/dev/null)" = "$2" ]
}

# mark_filled ENVIRONMENT FINGERPRINT
mark_filled() {
    echo "$2" >"$1/filled-from"
}

# fill ENVIRONMENT LOCK [OPTIONS OF PIP]: create or complete the environment, each package checked
# by its hash.
fill() {
    if [ -L "$1" ]; then
        echo "$1 is a link, to $(readlink "$1"): its owner fills it" >&2
        exit 1
    fi
    rm -f "$1/filled-from"
    # Scripts and links in an environment hold its path and its Python: one that was moved, or whose
    # Python has gone or changed, is made anew.
    if [ "$(cat "$1/made-for" 2>/dev/null)" != "$PWD $("$python" -V)" ]; then
        "$python" -m venv --clear "$1"
        echo "$PWD $("$python" -V)" >"$1/made-for"
    fi
    # What builds comes first and from its own lock, so that no package fetches it unchecked.
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
        --requirement requirements/build.txt
    "$1/bin/python" -m pip install --no-build-isolation --require-hashes --requirement "$2" "${@:3}"
}
