"""A script: CREATE STREAM, CREATE QUERY and DROP QUERY statements between semicolons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from watersmeet.errors import ModelError, SourcePlace, SqlError, internal
from watersmeet.model import Column, Sink, Source, Stream
from watersmeet.model.query import sink_formats
from watersmeet.model.secrets import HINT, is_secret, masked, referenced
from watersmeet.model.stream import DAY, check_name
from watersmeet.model.types import KNOWN_TYPES
from watersmeet.sql.cursor import Cursor
from watersmeet.sql.duration import duration
from watersmeet.sql.parse import tokenize
from watersmeet.sql.site import Site
from watersmeet.sql.syntax import Token

_CLAUSES = ("LATENESS", "AHEAD", "RETAIN", "IDLE", "FROM")


@dataclass(frozen=True)
class CreateStream:
    stream: Stream
    place: SourcePlace


@dataclass(frozen=True)
class CreateQuery:
    name: str
    select: str
    sink: Sink
    place: SourcePlace
    offset: int  # of `select` in the script, so that its errors point into the file
    backfill: bool = False

    @property
    def origin(self) -> SourcePlace:
        """Where the SELECT stands in the script."""
        return SourcePlace(self.place.text, self.offset, self.offset + len(self.select), self.place.file)


@dataclass(frozen=True)
class DropQuery:
    name: str
    place: SourcePlace


Statement = CreateStream | CreateQuery | DropQuery


def parse_script(text: str, file: str = "", *, of_queries: bool = False) -> tuple[Statement, ...]:
    """The statements of a script in order; raises SqlError at the first problem.

    `of_queries`: the script is to change the queries of an engine, and a hint does not name streams."""
    return tuple(_statement(cursor, of_queries) for cursor in _pieces(text, file))


def parse_each(text: str, file: str = "") -> Iterator[Statement | SqlError]:
    """The statements of a script in order, and for each that is wrong its error."""
    try:
        pieces = _pieces(text, file)
    except SqlError as error:  # what is not even tokens has no statements
        yield error
        return
    for cursor in pieces:
        try:
            yield _statement(cursor)
        except SqlError as error:
            yield error
        except Exception as problem:
            yield internal(problem, cursor.site.place(cursor.tokens[0].span))


def _pieces(text: str, file: str) -> list[Cursor]:
    site = Site(text, SourcePlace(masked(text), 0, len(text), file))
    pieces: list[list[Token]] = [[]]
    for token in tokenize(site, text):
        if token.kind == "symbol" and token.text == ";":
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [Cursor(site, piece) for piece in pieces if piece]


def _statement(cursor: Cursor, of_queries: bool = False) -> Statement:
    if cursor.take("CREATE", "STREAM"):
        return _create_stream(cursor)
    if cursor.take("CREATE", "QUERY"):
        return _create_query(cursor)
    if cursor.take("DROP", "QUERY"):
        name = cursor.name("query")
        cursor.finish()
        return DropQuery(name.text, cursor.site.place(name.span))
    first = cursor.tokens[0]
    if first.is_word("SELECT", "WITH", "FROM"):
        cursor.site.fail(first.span, "a query in a script needs a name", hint="write CREATE QUERY name AS SELECT …")
    if first.is_word("DROP") and cursor.take("DROP", "STREAM"):
        cursor.site.fail(first.span, "DROP STREAM is not supported", hint="drop the queries that read it")
    words = " ".join(token.text for token in cursor.tokens[:2] if token.kind == "word").upper()
    cursor.site.fail(
        (first.start, cursor.tokens[:2][-1].end if words else first.end),
        f"statements that begin with {words or first.text} are not supported",
        hint=f"use {'' if of_queries else 'CREATE STREAM, '}CREATE QUERY or DROP QUERY",
    )


def _create_stream(cursor: Cursor) -> CreateStream:
    site = cursor.site
    name = cursor.name("stream")
    _check(cursor, "stream", name)
    columns = _columns(cursor, name)
    cursor.expect("TIMESTAMP", hint="write TIMESTAMP BY and the column of the event time")
    cursor.expect("BY")
    time = cursor.name("column")
    if time.text.lower() not in {column.name.lower() for column in columns}:
        detail = f"Its columns: {', '.join(column.name for column in columns)}."
        site.fail(time.span, f"stream {name.text} has no column {time.text}", detail=detail)
    late = cursor.take("LATENESS")
    lateness = duration(site, cursor.until(*_CLAUSES), late.span) if late else 0
    word = cursor.take("AHEAD")
    ahead = _length(cursor, word) if word else DAY
    word = cursor.take("RETAIN")
    retain = _length(cursor, word) if word else 0
    idle = _idle(cursor)
    cursor.expect("FROM", hint="write FROM, a format and a path, for example FROM parquet 'events'")
    source_format = cursor.name("format").text.lower()
    path = cursor.string("path").text
    options = _options(cursor)
    cursor.finish()
    source = Source(source_format, path, options)
    try:
        stream = Stream(name.text, columns, time.text, lateness, source, ahead=ahead, retain=retain, idle=idle)
    except ModelError as error:
        site.adopt(time.span, error)
    return CreateStream(stream, site.place(name.span))


def _length(cursor: Cursor, word: Token) -> int | None:
    """The length of time after AHEAD or RETAIN; None if it is UNBOUNDED."""
    written = cursor.until(*_CLAUSES)
    following = cursor.peek()
    before = _CLAUSES[: _CLAUSES.index(word.text.upper())]
    for clause in before:
        if following and following.means(clause):
            hint = "write LATENESS … AHEAD … RETAIN … IDLE AFTER … FROM …"
            cursor.site.fail(following.span, f"{clause} must precede {word.text.upper()}", hint=hint)
    if len(written) == 1 and written[0].is_word("UNBOUNDED"):
        return None
    return duration(cursor.site, written, word.span)


def _idle(cursor: Cursor) -> int | None:
    """After how long a silence the stream does not hold back windows; None: it always does."""
    word = cursor.take("IDLE")
    if word is None:
        return None
    cursor.expect("AFTER", hint="write IDLE AFTER 10 SECONDS")
    length = _length(cursor, word)
    if not length:
        problem = "IDLE AFTER needs a length above 0" if length == 0 else "IDLE AFTER UNBOUNDED means nothing"
        cursor.site.fail(word.span, problem, hint="write IDLE AFTER 10 SECONDS, or leave it out")
    return length


def _columns(cursor: Cursor, stream: Token) -> tuple[Column, ...]:
    site = cursor.site
    cursor.expect("(", hint="list the stream's columns and their types")
    columns: list[Column] = []
    while True:
        name = cursor.name("column")
        if any(name.text.lower() == column.name.lower() for column in columns):
            site.fail(name.span, f"stream {stream.text} has two columns named {name.text}", hint="rename one of them")
        kind = cursor.type_tokens()
        if not kind:
            site.fail(name.span, f"column {name.text} has no type", detail=f"Types: {', '.join(KNOWN_TYPES)}.")
        span = (kind[0].start, kind[-1].end)
        try:
            columns.append(Column(name.text, site.text[span[0] : span[1]]))
        except ModelError as error:
            detail = error.detail or f"Types: {', '.join(KNOWN_TYPES)}."
            site.adopt(span, ModelError(error.problem, detail=detail, hint=error.hint))
        if not cursor.take(","):
            break
    cursor.expect(")")
    return tuple(columns)


def _create_query(cursor: Cursor) -> CreateQuery:
    site = cursor.site
    name = cursor.name("query")
    _check(cursor, "query", name)
    sink = Sink()
    backfill = cursor.take("BACKFILL") is not None
    if cursor.take("INTO"):
        kind = cursor.name("format")
        if kind.text.lower() not in sink_formats():
            site.fail(kind.span, f"unknown format {kind.text}", detail=f"Formats: {', '.join(sink_formats())}.")
        path = cursor.string("path").text if cursor.peek_kind() == "string" else None
        sink = Sink(kind.text.lower(), path, _options(cursor))
    following = cursor.peek()
    if following and following.is_word("BACKFILL"):
        hint = "write CREATE QUERY name BACKFILL INTO … AS SELECT …"
        site.fail(following.span, "BACKFILL is written twice" if backfill else "BACKFILL must precede INTO", hint=hint)
    cursor.expect("AS", hint="write CREATE QUERY name [BACKFILL] [INTO format 'path'] AS SELECT …")
    body = cursor.rest()
    if not body:
        site.fail(name.span, f"query {name.text} has no SELECT", hint="write SELECT … after AS")
    start, end = body[0].start, body[-1].end
    return CreateQuery(name.text, site.text[start:end], sink, site.place(name.span), offset=start, backfill=backfill)


def _options(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    if not cursor.take("WITH"):
        return ()
    cursor.expect("(", hint="write WITH (option = value, …)")
    options: dict[str, str] = {}
    while True:
        first = cursor.name_or_string("option")
        name = first.text
        while cursor.take("."):
            name += "." + cursor.name("option").text
        if name in options:
            cursor.site.fail(first.span, f"option {name} is given twice")
        cursor.expect("=", hint="write option = value")
        value = cursor.peek()
        options[name] = cursor.value()
        if is_secret(name) and referenced(options[name]) is None and value is not None:
            cursor.site.fail(
                value.span,
                f"the option {name} is a secret",
                detail="A value that is written here would be stored in the home and shown in errors.",
                hint=HINT,
            )
        if not cursor.take(","):
            break
    cursor.expect(")")
    return tuple(options.items())


def _check(cursor: Cursor, kind: str, name: Token) -> None:
    try:
        check_name(kind, name.text)
    except ModelError as error:
        cursor.site.adopt(name.span, error)
