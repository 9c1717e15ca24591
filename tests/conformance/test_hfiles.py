"""HFiles: bytes beside those of Apache Hudi's writer, and what its reader makes of ours."""

from pathlib import Path

import pytest

from hoodie.format.hfile_blocks import Compression
from hoodie.format.hfile_reading import Reader
from hoodie.format.hfile_writing import Options
from support.peer import peer_hfiles
from support.peer.judge import Judge
from support.peer.peer_hfiles import PeerHFiles
from support.tables.hfiles import Pairs, hfile, leveled, pairs_of

INFO = {"schema": b'{"type":"record"}', "minRecordKey": b"a", "maxRecordKey": b"z"}
META = {"bloomFilter": b"bits" * 100}
PAIRS = [(b"key%05d" % number, b"value %d" % (number**3)) for number in range(5000)]
FILES: dict[str, Pairs] = {
    "empty": [],
    "one entry": PAIRS[:1],
    "many blocks": PAIRS,
    "long keys": [(b"%05d" % number + b"k" * (7 * number), b"v") for number in range(300)],
    "large values": [(b"key%d" % number, bytes([number]) * 70_000) for number in range(9)],
    "empty key and value": [(b"", b""), (b"a", b"")],
}
# Its reader takes 260 bytes of checksums off the entries of a block of 1 MiB.
MANY_CHECKSUMS = [(b"key%05d" % number, b"v" * 10) for number in range(70_000)]


@pytest.fixture(scope="module")
def peer(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> PeerHFiles:
    return PeerHFiles(judge=judge, folder=tmp_path_factory.mktemp("hfiles"))


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("name", FILES)
def test_our_bytes_are_those_of_apache_hudi(
    name: str,
    compression: Compression,
    peer: PeerHFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer_hfiles.compress_as_java(monkeypatch)
    options = Options(created_ms=1, compression=compression, block_bytes=64 * 1024)
    peer.write(tmp_path / "theirs.hfile", FILES[name], options, INFO, META)
    ours = hfile(
        FILES[name], compression=compression, block_bytes=64 * 1024, file_info=INFO, meta=META
    )
    assert ours == (tmp_path / "theirs.hfile").read_bytes()


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("name", FILES)
def test_apache_hudi_reads_our_files(
    name: str, compression: Compression, peer: PeerHFiles, tmp_path: Path
) -> None:
    path = tmp_path / "ours.hfile"
    path.write_bytes(hfile(FILES[name], compression=compression, block_bytes=1000))
    assert peer.scan(path) == FILES[name]
    assert peer.lookup(path, [key for key, _ in FILES[name][::3]]) == FILES[name][::3]


def test_apache_hudi_loses_entries_of_its_own_file_and_none_of_ours(
    peer: PeerHFiles, tmp_path: Path
) -> None:
    theirs, ours = tmp_path / "theirs.hfile", tmp_path / "ours.hfile"
    peer.write(theirs, MANY_CHECKSUMS, Options(created_ms=1, compression=Compression.NONE))
    ours.write_bytes(hfile(MANY_CHECKSUMS, compression=Compression.NONE))
    assert len(peer.scan(theirs)) < len(MANY_CHECKSUMS)
    assert peer.scan(ours) == MANY_CHECKSUMS
    assert pairs_of(Reader.over("theirs", theirs.read_bytes()).scan()) == MANY_CHECKSUMS


@pytest.mark.parametrize("levels", [2, 3])
def test_index_of_several_levels_is_as_apache_hudi_reads_it(
    levels: int, peer: PeerHFiles, tmp_path: Path
) -> None:
    path = tmp_path / "leveled.hfile"
    path.write_bytes(leveled(PAIRS[:100], levels, entries_per_block=3, fan_out=5))
    assert peer.scan(path) == PAIRS[:100]
    assert pairs_of(Reader.over("leveled", path.read_bytes()).scan()) == PAIRS[:100]


def test_apache_hudi_does_not_find_keys_that_java_sorted(peer: PeerHFiles, tmp_path: Path) -> None:
    # It sorts records by UTF-16 and looks them up by bytes. We find all of them.
    texts = ["a", "\U0001f600", "\U0001f601", "\uff21", "\uff22"]
    pairs = [(text.encode(), b"v") for text in texts]
    path = tmp_path / "java.hfile"
    peer.write(path, pairs, Options(created_ms=1, block_bytes=50))
    keys = sorted(key for key, _ in pairs)
    assert len(peer.lookup(path, keys)) < len(keys)
    assert Reader.over("java", path.read_bytes()).lookup(keys).num_rows == len(keys)
