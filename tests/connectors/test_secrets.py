"""Secrets are named, not written: no text that the engine stores or shows has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.errors import ModelError, SqlError
from watersmeet.io.connectors.options import Option, OptionTable, check_installed, number, one_of
from watersmeet.io.connectors.secrets import redacted, resolved
from watersmeet.model import Sink
from watersmeet.model.secrets import is_secret, masked, reference, referenced
from watersmeet.model.targets import BUILT_IN
from watersmeet.sql import CreateQuery, parse_script

QUERY = "CREATE QUERY q INTO sqlite 'x' WITH ({}) AS SELECT 1"
TABLE = OptionTable("trial", (Option("format", "json", one_of("json", "avro")), Option("rows", "1", number)), ("a.b",))


@pytest.fixture(autouse=True)
def sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "sqlite", "tests.support.sqlite_target:CONNECTOR")


def sink_of(options: str) -> Sink:
    (statement,) = parse_script(QUERY.format(options))
    assert isinstance(statement, CreateQuery)
    return statement.sink


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.pem", "basic.auth.user.info", "client_secret", "api.token"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sasl.username", "ssl.key.location", "token.endpoint.url", "format"])
def test_names_of_other_options(name: str) -> None:
    assert not is_secret(name)


def test_a_name_of_a_secret_is_stored_as_it_is_written() -> None:
    sink = sink_of("'sasl.password' = env('PASS'), ssl.key.pem = file('it''s.pem'), rows = 3")
    assert sink.options == (("sasl.password", "env('PASS')"), ("ssl.key.pem", "file('it''s.pem')"), ("rows", "3"))
    assert referenced(reference("file", "it's.pem")) == ("file", "it's.pem")


@pytest.mark.parametrize(
    "options",
    [
        "'sasl.password' = 'hunter2'",
        'sasl.password = "hunter2"',
        "rows = 1, sasl.password='hunter2', other = 2",
        "sasl.password = 'hunter2",  # without its end
        "'sasl.password' = 'hunter2'; CREATE NONSENSE",
    ],
)
def test_a_secret_that_is_written_is_rejected_and_not_shown(options: str) -> None:
    with pytest.raises(SqlError) as caught:
        sink_of(options)
    assert "hunter2" not in str(caught.value)


def test_other_errors_of_the_same_line_do_not_show_it() -> None:
    with pytest.raises(SqlError) as caught:
        parse_script("CREATE QUERY 7 INTO sqlite 'x' WITH (sasl.password = 'hunter2') AS SELECT 1")
    assert "hunter2" not in str(caught.value) and "*******" in str(caught.value)


def test_a_masked_text_has_the_same_positions() -> None:
    text = "a = 'b', p.password = 'one two\nthree', c = 'd'"
    assert len(masked(text)) == len(text) and masked(text).count("\n") == 1
    assert "one" not in masked(text) and "three" not in masked(text) and "'d'" in masked(text)


def test_secrets_are_resolved_and_redacted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "correct horse")
    (tmp_path / "key").write_text("battery staple\n")
    given = (("p", "env('TEST_PASSWORD')"), ("k", f"file('{tmp_path}/key')"), ("plain", "text"))
    assert resolved(given) == {"p": "correct horse", "k": "battery staple", "plain": "text"}
    assert redacted("no correct horse, no battery staple") == "no ***, no ***"


def test_a_secret_that_cannot_be_resolved_names_the_option_and_the_place(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"option p: the environment variable NO_SUCH_NAME is not set"):
        resolved([("p", "env('NO_SUCH_NAME')")])
    with pytest.raises(ModelError, match=r"option p: the file .*none cannot be read: No such file"):
        resolved([("p", f"file('{tmp_path}/none')")])


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ((("fromat", "json"),), "did you mean format?"),
        ((("ROWS", "1"),), "did you mean rows?"),
        ((("A.b", "1"),), "did you mean a.b?"),
        ((("format", "xml"),), "use one of json, avro"),
        ((("rows", "-1"),), "use a number above 0"),
        ((("zzzzzz", "1"),), "Options: format, rows."),
    ],
)
def test_options_are_a_closed_list(options: tuple[tuple[str, str], ...], advice: str) -> None:
    with pytest.raises(ModelError) as caught:
        TABLE.check("query q", options)
    assert advice in str(caught.value) and str(caught.value).startswith("query q: ")


def test_options_may_be_references_and_are_passed_on() -> None:
    TABLE.check("query q", (("rows", "env('ROWS')"), ("a.b", "1")))
    assert TABLE.own({"rows": "7"}) == {"format": "json", "rows": "7"}
    assert TABLE.handed_over({"rows": "7", "a.b": "1"}) == {"a.b": "1"}


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(ModelError, match=r"pip install 'watersmeet\[kafka\]'"):
        check_installed("query q", "kafka", ["no_such_package"], "kafka")


def test_passwords_in_connection_strings_are_masked() -> None:
    text = "dsn = 'host=a password=hunter2 user=x', b = 'postgresql://me:hunter2@h:5432/db', c = 'http://h:80/x'"
    assert masked(text) == text.replace("hunter2", "*******")
    assert masked("password=env('X')") == "password=env('X')"
