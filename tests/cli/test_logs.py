"""--log-json: every line of standard error is a JSON object, whatever the command has to say."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from lwcs.cli import logs, main
from lwcs.runtime.warnings import LOG
from tests.cli.running import run

FIT = ["fit", "d.parquet", "--columns", "x,y", "-k", "3", "--seed", "0", "-o", "out.parquet"]
BUILD = ["build", "d.parquet", "--columns", "x,y", "--size", "50", "--seed", "0"]
BUILD += ["-o", "out.parquet"]


def records(stderr: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in stderr.splitlines()]
    for each in found:
        assert datetime.fromisoformat(each["time"]).utcoffset().total_seconds() == 0
        assert {"level", "event", "message"} <= each.keys()
    return found


def logged(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code, _, err = run(*arguments, "--log-json")
    return code, records(err)


@pytest.mark.parametrize(
    "arguments",
    [
        BUILD,
        FIT,
        ["mixture", "d.parquet", "--columns", "x,y", "-n", "2", "--seed", "0", "-o", "o.parquet"],
        ["assign", "d.parquet", "m.parquet", "-o", "labels.csv"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_passes_and_the_result_are_records(folder, arguments):
    code, found = logged(*arguments)
    assert code == 0
    passes = [each for each in found if each["event"] == "pass"]
    assert passes
    for each in passes:
        assert each["level"] == "INFO"
        assert each["rows"] == 1_000
        assert each["seconds"] >= 0.0
        assert each["bytes"] > 0
    assert found[-1]["event"] == "result"
    assert found[-1]["result"]["rows"] == 1_000


def test_inspect_and_compare_write_records_only(folder):
    code, found = logged("inspect", "d.csv", "--columns", "x,y")
    assert (code, [each["stage"] for each in found]) == (0, ["counting"])
    options = ["--columns", "x,y", "-k", "2", "--sizes", "20", "--repeats", "1", "-o", "compared"]
    code, found = logged("compare", "d.parquet", *options, "--methods", "full,uniform")
    assert code == 0
    assert any("1,000 × 2" in each["message"] for each in found)
    assert any(each.get("stage") == "comparing" for each in found)


def test_decisions_come_with_debug(folder):
    levels = {each["level"] for each in logged(*BUILD)[1]}
    assert levels == {"INFO"}
    found = logged(*BUILD, "--debug")[1]
    assert {"kernel", "draw", "file"} <= {each["event"] for each in found}


def test_quiet_leaves_errors_only(folder):
    assert logged(*BUILD, "-q") == (0, [])
    code, found = logged("build", "nowhere.parquet", "--size", "5", "-o", "out.parquet", "-q")
    assert (code, [each["level"] for each in found]) == (1, ["ERROR"])


def test_warnings_are_records(folder):
    found = logged("build", "d.parquet", "--size", "50", "-o", "out.parquet")[1]
    warnings = [each for each in found if each["level"] == "WARNING"]
    assert warnings
    assert all(each["event"] == "warning" for each in warnings)
    assert not any(each["message"].startswith("Warning") for each in warnings)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["build", "nowhere.parquet", "--size", "5", "-o", "o.parquet"], 1, "does not exist"),
        (["build", "d.parquet", "--size", "5", "-o", "o.txt"], 2, "an ending that"),
        (["build", "d.parquet", "--size", "x", "-o", "o.parquet"], 2, "not a valid integer"),
        (["build", "d.parquet", "--sise", "5", "-o", "o.parquet"], 2, "No such option"),
        (["biuld", "d.parquet"], 2, "No such command"),
        ([*BUILD[:-1], "o.parquet", "--passes", "7"], 1, "--passes 7"),
    ],
)
def test_an_error_is_one_record_and_the_exit_code_stays(folder, arguments, code, said):
    assert run(*arguments)[0] == code
    found = logged(*arguments)
    assert (found[0], [each["level"] for each in found[1]]) == (code, ["ERROR"])
    assert said in found[1][0]["message"]


def test_the_traceback_of_an_error_is_a_field(folder):
    code, (found,) = logged("build", "no.parquet", "--size", "5", "-o", "o.parquet", "--debug")
    assert code == 1
    assert found["traceback"].startswith("Traceback")


def test_an_error_that_nobody_expects_is_a_record_too(folder, monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("lwcs.build", fail)
    code, (found,) = logged(*BUILD)
    assert (code, found["level"], found["message"]) == (1, "ERROR", "a defect")


def test_an_interrupt_is_a_record_with_its_code(folder, monkeypatch):
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lwcs.build", stop)
    code, (found,) = logged(*BUILD)
    assert (code, found["level"]) == (130, "ERROR")


def test_progress_becomes_records(folder, monkeypatch):
    monkeypatch.setattr(logs, "LINES_EVERY", 0.0)
    monkeypatch.setattr("lwcs.runtime.progress._CALLS_EVERY", 0.0)
    found = [each for each in logged(*FIT)[1] if each["event"] == "progress"]
    assert {"all rows", "Lloyd"} <= {each["stage"] for each in found}
    assert all({"done", "total", "rows", "seconds"} <= each.keys() for each in found)


def test_without_the_flag_a_command_writes_a_sentence_and_logs_nothing(folder):
    code, _, err = run(*BUILD)
    assert (code, len(err.splitlines())) == (0, 1)
    assert err.startswith("Built a coreset of 50 draws")


def test_the_logger_is_left_as_it_was(folder):
    before = LOG.level, list(LOG.handlers)
    logged(*BUILD)
    logged("build", "nowhere.parquet", "--size", "5", "-o", "o.parquet")
    assert (LOG.level, LOG.handlers) == before


def test_a_name_after_two_dashes_is_no_flag(folder):
    code, _, err = run("inspect", "--", "--log-json")
    assert code == 1
    assert err.startswith("Error: '--log-json' does not exist")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_takes_the_flag(name):
    code, out, _ = run(name, "--help")
    assert code == 0
    assert "--log-json" in out


def test_inspect_shows_where_the_time_went(folder):
    run(*FIT)
    found = json.loads(run("inspect", "out.parquet", "--json")[1])["timings"]
    assert {"all rows", "Lloyd", "total"} <= found.keys()
    shown = " ".join(run("inspect", "out.parquet")[1].split())
    assert "seconds" in shown
    assert "all rows 0" in shown
