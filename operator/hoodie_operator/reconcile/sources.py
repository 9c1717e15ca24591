"""From a source's files and a writer's commits to the batches that are still to be written.

A file is remembered by its token: its name and a digest of its content. A batch of one file has the
token as its id; one of several has a digest of theirs, and its commit lists them. So the files that
a commit holds are known however they were grouped: a file is written once, and one with new content
again.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence

from hoodie.contract import input_sources
from hoodie_operator.reconcile import facts

_NAME_LENGTH_MAX = 80
_DIGEST_LENGTH = 16


def token(name: str, digest: str) -> str:
    """Return what a file is remembered by: as much of its name as fits, and what tells it apart."""
    short = _short(name)
    if short == name:
        return f"{name}@{digest}"
    return f"{short}@{_digest([name, digest])}"


def committed_tokens(commits: Iterable[facts.Commit]) -> frozenset[str]:
    """Return the files that commits hold, by token, and their batches by id."""
    found: set[str] = set()
    for commit in commits:
        if commit.batch_id is not None:
            found.add(commit.batch_id)
        found.update(commit.files)
    return frozenset(found)


def remaining(
    source: facts.SourceFacts, committed: Collection[str], archived: str = ""
) -> tuple[input_sources.Batch, ...]:
    """Return the batches to write, in order, without the files that are written already.

    Args:
        source: The files.
        committed: Files and batches that are written, by token and id.
        archived: Those of archived commits, as of `facts.digests`.
    """
    batches = []
    taken = set(committed)
    for group in source.groups:
        files = []
        for file in group:
            if file.token not in taken and not facts.holds(archived, file.token):
                taken.add(file.token)
                files.append(file)
        if not files:
            continue
        batch = _batch(files)
        if batch.id not in committed and not facts.holds(archived, batch.id):
            batches.append(batch)
    return tuple(batches)


def _batch(files: Sequence[facts.SourceFile]) -> input_sources.Batch:
    paths = tuple(file.path for file in files)
    tokens = tuple(file.token for file in files)
    if len(files) == 1:
        return input_sources.Batch(id=tokens[0], files=paths)
    name = _short(tokens[0].rpartition("@")[0])
    batch_id = f"{name}+{len(files) - 1}@{_digest(tokens)}"
    return input_sources.Batch(id=batch_id, files=paths, tokens=tokens)


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH_MAX else f"...{name[3 - _NAME_LENGTH_MAX :]}"


def _digest(parts: Iterable[str]) -> str:
    text = "\0".join(parts)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
