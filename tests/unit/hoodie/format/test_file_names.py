"""Names of data files and markers (FSUtils.java), with names that Apache Hudi 1.2.0 gave."""

import pytest

from hoodie.format import file_names
from hoodie.model import files, instants

TIME = instants.InstantTime("20261121071232155")
FILE_ID = "1a1f3aad-465c-433f-a170-2d2a2db8ccf5-0"


def test_base_file_is_read_as_it_is_named() -> None:
    name = file_names.base_file_name(FILE_ID, "0-300-559", TIME)
    assert name == "1a1f3aad-465c-433f-a170-2d2a2db8ccf5-0_0-300-559_20261121071232155.parquet"
    assert file_names.parse(f"eu/{name}", 434_651) == files.BaseFile(
        group=files.FileGroupId("eu", FILE_ID),
        name=name,
        instant_time=TIME,
        write_token="0-300-559",
        size_bytes=434_651,
    )


def test_log_file_is_read_as_it_is_named() -> None:
    name = file_names.log_file_name(FILE_ID, TIME, 1, "0-300-559")
    assert name == ".1a1f3aad-465c-433f-a170-2d2a2db8ccf5-0_20261121071232155.log.1_0-300-559"
    assert file_names.parse(f"a/b/{name}", 5) == files.LogFile(
        group=files.FileGroupId("a/b", FILE_ID),
        name=name,
        instant_time=TIME,
        version=1,
        write_token="0-300-559",
        size_bytes=5,
    )


def test_file_in_table_root_is_in_the_empty_partition() -> None:
    parsed = file_names.parse(f"{FILE_ID}_0-1-2_{TIME}.parquet", 1)
    assert parsed is not None
    assert parsed.group.partition_path == ""


def test_log_file_without_write_token_is_read() -> None:
    parsed = file_names.parse(f".{FILE_ID}_{TIME}.log.12", 1)
    assert isinstance(parsed, files.LogFile)
    assert (parsed.version, parsed.write_token) == (12, "")


def test_time_of_fourteen_digits_is_padded_as_hudi_does() -> None:
    parsed = file_names.parse(f"{FILE_ID}_0-1-2_20200101000000.parquet", 1)
    assert parsed is not None
    assert parsed.instant_time == "20200101000000999"


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        ".f6a8c5c4-4069-4747-93c9-bc10a8cf90d5-0_20261121070834491.log.1_0-1558-2366.cdc",
        f".{FILE_ID}_{TIME}.log.1_0-300-559.crc",
        f".{FILE_ID}_0-300-559_{TIME}.parquet.crc",
        f".{FILE_ID}_{TIME}.archive.1_0-1-2",
        f".{FILE_ID}_{TIME}.log.99999999999999999999_0-1-2",
        f"{FILE_ID}_0-300-559_{TIME}.orc",
        f"{FILE_ID}_0-300-559_{TIME}.parquet.tmp",
        f"under_score_0-300-559_{TIME}.parquet",
        f"{FILE_ID}_0-300-559_2026.parquet",
        f"{FILE_ID}_0-300-559_２０２６１１２１０７１２３２１５５.parquet",  # noqa: RUF001
        f"{FILE_ID}_0-300-559_{TIME}.parquet\n",
        "data.parquet",
        "",
    ],
)
def test_other_names_are_no_data_files(name: str) -> None:
    assert file_names.parse(f"eu/{name}", 1) is None


def test_base_files_have_the_tables_format() -> None:
    name = file_names.base_file_name("files-0000-0", "0-0-0", TIME, ".hfile")
    assert file_names.parse(name, 1) is None
    assert isinstance(file_names.parse(name, 1, ".hfile"), files.BaseFile)


def test_marker_tells_its_data_file() -> None:
    marker = file_names.marker_name(f".{FILE_ID}_{TIME}.log.1_0-300-559")
    assert marker == f".{FILE_ID}_{TIME}.log.1_0-300-559.marker.CREATE"
    assert file_names.marked_file(f"eu/{marker}") == f"eu/.{FILE_ID}_{TIME}.log.1_0-300-559"
    assert file_names.marked_file("MARKERS.type") is None
