"""The object storage against an S3 server (moto): the contract, and what the server itself has."""

import contextlib
import http.server
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hoodie import cli, errors
from hoodie.model.instants import format_time
from hoodie.storage import locations
from hoodie.storage.protocol import Storage
from hoodie.timeline import active
from support.contracts.storage_contract import StorageContract

PAGE_NAMES = 3


class TestS3Storage(StorageContract):
    has_control_characters = False

    @pytest.fixture
    def storage(self, bucket: str) -> Storage:
        return locations.open_storage(f"s3a://{bucket}/lake/table")


def test_keys_on_the_server_are_the_paths_as_they_are(aws_server: str, bucket: str) -> None:
    # Spark must find the same keys: nothing may be escaped on the way.
    storage = locations.open_storage(f"s3://{bucket}/lake/table")
    storage.create("day=2013%3A01/a b", b"")
    with urllib.request.urlopen(f"{aws_server}/{bucket}?list-type=2") as answer:
        assert b"<Key>lake/table/day=2013%3A01/a b</Key>" in answer.read()


def test_missing_bucket_is_not_found_and_secret_is_not_told(bucket: str) -> None:
    storage = locations.open_storage(f"s3://{bucket}-none/table")
    with pytest.raises(errors.HoodieError) as caught:
        storage.create("file", b"")
    assert f"s3://{bucket}-none/table/file" in str(caught.value)
    assert "secret" not in str(caught.value)


@contextlib.contextmanager
def paging(server: str, happening: Callable[[], None]) -> Iterator[str]:
    """Give the URL of the same server with small pages; something happens after the first one."""
    happenings = [happening]

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urllib.parse.urlsplit(self.path)
            query = [*urllib.parse.parse_qsl(address.query), ("max-keys", str(PAGE_NAMES))]
            target = f"{server}{address.path}?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(target) as answer:
                body = answer.read()
            if b"<IsTruncated>true" in body and happenings:
                happenings.pop()()
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *ignored: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}"
        finally:
            proxy.shutdown()
            thread.join()


def test_commit_that_completes_behind_a_page_is_not_missed(
    aws_server: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5, I6, I11: a listing that comes in pages is no snapshot, a read is."""
    storage = locations.open_storage(f"s3://{bucket}/table")
    long, others, short = (format_time(1_780_000_000_000 + n) for n in (1, 2, 5))
    ends = (format_time(1_780_000_000_000 + n) for n in (3, 6, 7))

    def create(name: str) -> None:
        storage.create(f"{active.DIRECTORY}/{name}", b"x")

    for time in (long, others):
        for state in ("requested", "inflight"):
            create(f"{time}.deltacommit.{state}")
    create(f"{others}_{next(ends)}.deltacommit")

    def commit_both() -> None:
        for time in (long, short):
            create(f"{time}_{next(ends)}.deltacommit")

    with paging(aws_server, commit_both) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        timeline = active.load(locations.open_storage(f"s3://{bucket}/table"))
    shown = [each.requested_time for each in timeline.completed_writes]
    assert shown == [others, long, short][: len(shown)]
    assert len(shown) == 3


def test_commands_on_a_table_in_a_bucket_need_no_lock_to_be_named(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trips.csv").write_text("id,city\n1,Oslo\n2,Rome\n")
    uri = f"s3://{bucket}/lake/trips"
    written = [str(tmp_path / "trips.csv"), "--create", "--record-key", "id"]
    for words in (["write", uri, *written], ["delete", uri, "--where", "id = 1"], ["compact", uri]):
        assert cli.main(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert cli.main(["count", uri]) == 0
    assert capsys.readouterr().out == "1 row\n"
