"""A pipeline: streams, queries and registered predicates as declared. A pure value.

`check`, `explain` and what-if work on it, and an engine runs one. A method that changes something returns another
pipeline, or raises an error with the position in the SQL.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from watersmeet.errors import ModelError, SourcePlace, SqlError, WatersmeetError, internal
from watersmeet.io.locations import check_home_apart, check_into, check_path, check_source, resolved_sink
from watersmeet.io.sinks import check_sink, result_folder
from watersmeet.io.source import class_of
from watersmeet.io.sources import check_file_source
from watersmeet.model import Query, Registered, Sink, Stream
from watersmeet.model.forms import Form, PairRows
from watersmeet.options import Options
from watersmeet.sql import CreateQuery, CreateStream, Statement, build_query, parse_each, parse_script
from watersmeet.sql.registration import register
from watersmeet.windows.table import operator_of


@dataclass(frozen=True)
class Pipeline:
    """Declared streams, queries and predicates, with the options and the home that they are for."""

    options: Options = field(default_factory=Options)
    home: Path = Path("watersmeet-home")  # results without INTO go there
    streams: Mapping[str, Stream] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    predicates: Mapping[str, Registered] = field(default_factory=dict)  # by lower-case name

    @classmethod
    def read(cls, script: str, file: str | Path = "", options: Options | None = None) -> Pipeline:
        """The pipeline that a script declares. Relative paths are relative to the folder of `file`."""
        pipeline = cls(options or Options())
        for statement in parse_script(script, str(file)):
            pipeline = pipeline.after(statement)
        return pipeline

    # Streams and predicates ----------------------------------------------------------------------

    def with_stream(self, stream: Stream) -> Pipeline:
        if stream.name in self.streams:
            raise ModelError(
                f"a stream named {stream.name} exists already",
                hint="rename one of the two; to declare it differently, stop the engine and declare it in a new one",
            )
        if (found := class_of(stream)) is not None:
            found.check(stream)
        check_file_source(stream)
        check_home_apart(self.home, stream)
        for query in self.queries.values():
            if query.sink.path and query.sink.names_folder and query.sink.format != "console":
                check_source(query.name, Path(query.sink.path), stream)
        return replace(self, streams={**self.streams, stream.name: stream})

    def with_predicate(self, name: str, function: Callable[..., Any], by_row: bool) -> Pipeline:
        if name.lower() in self.predicates:
            raise ModelError(f"a predicate named {name} exists already", hint="choose another name")
        made = register(name, function, by_row, self.options.predicate_seconds)
        return replace(self, predicates={**self.predicates, name.lower(): made})

    # Queries -------------------------------------------------------------------------------------

    def query(
        self, name: str, sql: str, sink: Sink | None = None, backfill: bool = False, origin: SourcePlace | None = None
    ) -> Query:
        """The query of a SELECT, not yet part of the pipeline."""
        return build_query(
            name,
            sql,
            self.streams,
            sink,
            origin=origin,
            backfill=backfill,
            max_aliases=self.options.max_aliases,
            functions=self.predicates,
            limits=self.options.text_limits,
        )

    def created_by(self, statement: CreateQuery, folder: str) -> Query:
        """The query of a statement; a relative path in it is relative to a folder."""
        sink = statement.sink
        if sink.is_delivered:
            sink = replace(sink, options=options_in(folder, sink.options, ("schema",)))
        if sink.path and sink.names_folder:
            sink = replace(sink, path=path_in(folder, sink.path))
        return self.query(statement.name, statement.select, sink, statement.backfill, statement.origin)

    def with_query(self, query: Query) -> Pipeline:
        name = query.name
        if name in self.queries:
            raise ModelError(
                f"a query named {name} exists already",
                hint=f"rename one of the two, or drop it first: watersmeet drop {name}, DROP QUERY {name}, "
                f'or in Python engine.drop("{name}")',
            )
        if len(self.queries) >= self.options.max_queries:
            raise ModelError(
                f"the pipeline has {len(self.queries)} queries; the limit is {self.options.max_queries}",
                hint="drop a query, or raise the option max_queries",
            )
        query = self.for_executor(query)
        query = replace(query, sink=resolved_sink(query.sink))
        check_path(name, query.sink, self.home)
        check_sink(name, query.sink, query.outputs)
        check_into(name, query.sink, self.home, self.streams.values(), self.options.into_roots)
        self._check_apart(query)
        return replace(self, queries={**self.queries, name: query})

    def for_executor(self, query: Query) -> Query:
        """The query in the forms that the executor can compute; without Spark, one that needs it is rejected."""
        if query.spark_columns and self.options.executor == "local":
            call = next(iter(query.spark_columns.values()))[0].shown
            raise ModelError(
                f"query {query.name}: {call} is computed by Spark, and with executor=local there is none",
                hint="use the default executor, or compute it where results are read",
            )
        forms = self._usable_forms(query)
        if not forms:
            raise ModelError(
                f"query {query.name}: its windows are computed by Spark, and with executor=local there is none",
                detail=query.reason,
                hint="use the default executor, or a query that is computed from slices (docs/windows.md)",
            )
        return query if len(forms) >= len(query.forms) else replace(query, form=forms[0], forms=forms)

    def _usable_forms(self, query: Query) -> tuple[Form, ...]:
        """The forms of a query that need no Spark where there is none. Results of a join are kept from when they are
        found, so that BACKFILL needs another form beside that."""
        forms = query.forms or (query.form,)
        if self.options.executor != "local":
            return forms
        operators = [(form, operator_of(query.in_form(form))) for form in forms]
        without = tuple(form for form, operator in operators if operator is None or not operator.needs_spark)
        return () if query.backfill and all(form.kind == PairRows.kind for form in without) else without

    def without_query(self, name: str) -> Pipeline:
        self.known_query(name)
        return replace(self, queries={other: query for other, query in self.queries.items() if other != name})

    def known_query(self, name: str) -> Query:
        if name not in self.queries:
            listed = ", ".join(sorted(self.queries)) or "none"
            raise ModelError(f"there is no query named {name}", detail=f"Queries: {listed}.")
        return self.queries[name]

    def _check_apart(self, query: Query) -> None:
        """No two queries write into one folder. Without INTO, the folders of two differ as their names do."""
        home = Path(os.path.realpath(self.home))
        folder = result_folder(home, query.name, query.sink)
        for other in self.queries.values():
            if (query.sink.path or other.sink.path) and result_folder(home, other.name, other.sink) == folder:
                raise ModelError(
                    f"query {query.name} would write into the folder of query {other.name}: {folder}",
                    hint="choose another path after INTO",
                )

    def folder_of(self, query: Query) -> Path:
        """Where the results of a query go."""
        return result_folder(self.home, query.name, query.sink)

    # Statements ----------------------------------------------------------------------------------

    def after(self, statement: Statement) -> Pipeline:
        """The pipeline after one statement; any error points at it."""
        folder = folder_of(statement.place.file)
        with pointing_at(statement.place):
            if isinstance(statement, CreateStream):
                return self.with_stream(source_in(folder, statement.stream))
            if isinstance(statement, CreateQuery):
                return self.with_query(self.created_by(statement, folder))
            return self.without_query(statement.name)


@contextlib.contextmanager
def pointing_at(place: SourcePlace | None) -> Iterator[None]:
    """Give errors of the model that are raised inside a position in the SQL."""
    try:
        yield
    except ModelError as error:
        if place is None:
            raise
        raise SqlError(error.problem, detail=error.detail, hint=error.hint, place=place) from None


def check_script(pipeline: Pipeline, script: str, file: str) -> tuple[Pipeline, list[WatersmeetError]]:
    """The pipeline after a script and the first error of each statement, except errors that only follow from another.

    An error follows from another if it points at the name of something whose own statement is wrong."""
    errors: list[WatersmeetError] = []
    statements = list(parse_each(script, file))
    meant = {name.lower() for name in re.findall(r"create\s+(?:stream|query)\s+`?(\w+)", script, re.IGNORECASE)}
    wrong = meant - {_created(statement) for statement in statements if not isinstance(statement, SqlError)}
    for statement in statements:
        if isinstance(statement, SqlError):
            errors.append(statement)
            continue
        try:
            pipeline = pipeline.after(statement)
        except Exception as problem:
            error = problem if isinstance(problem, WatersmeetError) else internal(problem, statement.place)
            if _pointed_at(error) not in wrong:
                errors.append(error)
            created = _created(statement)
            if created and created not in map(str.lower, (*pipeline.streams, *pipeline.queries)):
                wrong.add(created)
    if not errors and not pipeline.streams:
        errors.append(WatersmeetError(f"{file} declares no stream", hint="begin with CREATE STREAM …"))
    return pipeline, errors


def _created(statement: Statement) -> str:
    """The name that a statement introduces, if it does."""
    if isinstance(statement, CreateStream):
        return statement.stream.name.lower()
    return statement.name.lower() if isinstance(statement, CreateQuery) else ""


def _pointed_at(error: WatersmeetError) -> str:
    return error.place.text[error.place.start : error.place.end].strip("`").lower() if error.place else ""


def source_in(folder: str, stream: Stream) -> Stream:
    source, found = stream.source, class_of(stream)
    if source is None:
        return stream
    path = path_in(folder, source.path) if found is None or found.names_files else source.path
    files = found.file_options if found is not None else ()
    return replace(stream, source=replace(source, path=path, options=options_in(folder, source.options, files)))


def options_in(
    folder: str, options: tuple[tuple[str, str], ...], files: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Options of a source or a target, of which `files` are paths, as seen from a folder."""
    return tuple((name, path_in(folder, value) if name in files else value) for name, value in options)


def path_in(folder: str, path: str) -> str:
    """A relative path as seen from a folder, if one is named; an absolute one or an address stays as it is."""
    if not folder or not path or "://" in path:
        return path
    return os.path.normpath(os.path.join(folder, path))


def folder_of(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) if file else ""
