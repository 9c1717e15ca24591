"""The files of a table as its metadata table has them, and as its storage has them."""

from dataclasses import dataclass
from pathlib import Path

from hoodie import environment, table
from hoodie.filegroup import listing, metadata_listing, snapshots
from hoodie.storage.protocol import Storage
from hoodie.timeline import active


@dataclass(frozen=True)
class Looked:
    """Two listings of a table, and which of their files count."""

    by_metadata: metadata_listing.MetadataListing
    by_storage: listing.Listing
    snapshot: snapshots.Snapshot

    def committed(self, found: listing.Listing) -> dict[str, set[listing.DataFile]]:
        return {
            path: {
                each
                for each in found.files(path)
                if self.snapshot.committed.is_committed(each.instant_time)
            }
            for path in found.partitions()
        }


def look(path: Path) -> Looked:
    env = environment.system(parallelism=1)
    opened = table.open_table(str(path), env)
    storage: Storage = env.open_storage(str(path))
    snapshot = snapshots.take(storage, opened.config)
    by_storage = listing.of_table(storage, opened.config)
    by_metadata = metadata_listing.of_table(
        storage, opened.config, active.load(storage), by_storage
    )
    assert isinstance(by_metadata, metadata_listing.MetadataListing)
    return Looked(by_metadata, by_storage, snapshot)


def assert_same_files(path: Path) -> None:
    looked = look(path)
    found = looked.committed(looked.by_metadata)
    assert found == looked.committed(looked.by_storage)
    for partition in found:
        assert looked.by_metadata.is_partition(partition)
        data_files = looked.by_metadata.files(partition)
        assert data_files == sorted(data_files, key=lambda each: each.name)
        assert set(data_files) == found[partition], "files of what did not complete"
    assert not looked.by_metadata.is_partition("none")
    assert not looked.by_metadata.files("none")
    assert not looked.by_metadata.is_refused
