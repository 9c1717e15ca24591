"""Every exception becomes a kind, one line, perhaps a hint, and an exit code."""

import pytest
import typer

from hoodie import errors
from hoodie.cli import failures, guesses, program
from hoodie.model import json_values
from hoodie_operator import __main__ as operator_program


def test_error_of_ours_is_one_line_without_secrets() -> None:
    failure = failures.of(errors.StorageError("s3://id:secret@bucket/t:\n  denied\x1b[0m"))
    assert failure.kind == "Storage"
    assert failure.message == "s3://***@bucket/t: denied␛[0m"
    assert failure.hint.startswith("fix the storage problem")
    assert failure.exit_code == errors.StorageError.exit_code
    assert failure.trace == ""


@pytest.mark.parametrize("kind", sorted(errors.EXIT_CODES))
def test_every_class_keeps_its_exit_code(kind: str) -> None:
    pending = [errors.HoodieError]
    classes = {}
    while pending:
        cls = pending.pop()
        classes[cls.kind] = cls
        pending += cls.__subclasses__()
    failure = failures.of(classes[kind]("it failed"))
    assert (failure.kind, failure.message) == (kind, "it failed")
    assert failure.exit_code == errors.EXIT_CODES[kind]


def test_hour_that_is_repeated_is_waited_for_and_no_clock_is_wrong() -> None:
    failure = failures.of(errors.RepeatedTimeError("clocks show the times twice"))
    assert failure.kind == "RepeatedTime"
    assert failure.hint.startswith("retry when clocks have shown the last time")


def test_wrong_usage_is_no_bug() -> None:
    failure = failures.of(typer.BadParameter("it is wrong"))
    assert (failure.kind, failure.exit_code, failure.trace) == ("Usage", 2, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--type", "xow"], "Invalid value for '--type': 'xow' is not one of 'mor', 'cow'."),
        (["--buckets", "many"], "Invalid value for '--buckets': expected a whole number"),
        (["--buckets", "0"], "Invalid value for '--buckets': expected 1 or more"),
    ],
)
def test_wrong_usage_is_told_without_the_words_of_the_parser(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["create", "t", "--schema", "a.avsc", "--record-key", "id", *options]
    assert program.main(arguments) == errors.EXIT_USAGE
    assert capsys.readouterr().err == (
        f"error: {message}\nhint: run `hoodie create --help` for usage\n"
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("write t a.csv --create --key id", "No such option: --key; did you mean --record-key?"),
        ("delete t --key id", "No such option: --key; did you mean --where?"),
        ("read t --filter a=1", "No such option: --filter; did you mean --where?"),
        ("read t --column a", "No such option: --column; did you mean --columns?"),
        ("read t -n 5", "No such option: -n; did you mean --limit?"),
        ("drop t --yes", "No such option: --yes; did you mean --name?"),
        ("count t --frobnicate", "No such option: --frobnicate"),
        ("vacuum t", "No such command 'vacuum'. Did you mean 'clean'?"),
        ("query t", "No such command 'query'. Did you mean 'sql'?"),
        ("timelin t", "No such command 'timelin'. Did you mean 'timeline'?"),
        ("zzz t", "No such command 'zzz'."),
    ],
)
def test_names_of_other_programs_are_answered_with_those_of_this_one(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(argv.split()) == errors.EXIT_USAGE
    assert capsys.readouterr().err.splitlines()[0] == f"error: {message}"


def test_each_guess_is_of_a_name_that_some_command_has() -> None:
    groups = [program.parser(None), operator_program.parser(None)]
    commands = {name for each in groups for name in each.commands}
    assert {name for names in guesses.COMMANDS.values() for name in names} <= commands
    options = {
        name
        for command in program.COMMANDS
        for each in program.parser(command).commands[command].params
        for name in each.opts
    }
    assert {name for names in guesses.OPTIONS.values() for name in names} <= options


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            "create t --columns a --record-key id --record-key day",
            "--record-key is given 2 times, expected once, with commas between names",
        ),
        ("read t --where a=1 --where b=2", "--where is given 2 times, expected once"),
        ("read t --json --json --limit 1 --limit 1", "--limit is given 2 times, expected once"),
    ],
)
def test_an_option_that_is_given_twice_is_not_taken_once(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(argv.split()) == errors.EXIT_USAGE
    assert capsys.readouterr().err.splitlines()[0].endswith(message)


def test_an_option_that_is_given_twice_is_completed() -> None:
    read = program.parser("read").commands["read"]
    argv = ["t", "--where", "a=1", "--where", "b"]
    assert read.make_context("read", argv, resilient_parsing=True).params["where"] == "b"


def test_anything_else_is_a_bug_with_its_traceback() -> None:
    try:
        raise RuntimeError("oops at s3://id:secret@bucket")  # noqa: TRY301 - it needs a traceback
    except RuntimeError as error:
        failure = failures.of(error)
    assert failure.exit_code == 70
    assert failure.message == "RuntimeError: oops at s3://***@bucket"
    assert "Traceback" in failure.trace
    assert "secret" not in failure.trace


def test_interrupt_and_lack_of_memory_have_codes() -> None:
    assert failures.of(KeyboardInterrupt()).exit_code == 130
    assert failures.of(MemoryError()).exit_code == errors.OutOfMemoryError.exit_code


def test_programs_are_told_kind_and_message() -> None:
    document = failures.document(failures.of(errors.NotFoundError("there is no table")))
    assert json_values.encode(document) == (
        b'{"error":{"kind":"NotFound","message":"there is no table"}}'
    )


def test_conflict_that_says_what_to_do_has_no_other_hint() -> None:
    """A retry of a build that waited in vain would wait again."""
    waited = failures.of(errors.ConflictError("it is given up; roll it back by `hoodie rollback`"))
    assert not waited.hint
    assert failures.of(errors.ConflictError("x changed")).hint.endswith("retry the command")
