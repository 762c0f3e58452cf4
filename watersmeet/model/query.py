"""A query: the form in which it is computed, where its results go, and its life in an engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from watersmeet.model.forms import Form
from watersmeet.model.join import JoinForm, Output
from watersmeet.model.sliding_window import SlidingWindow
from watersmeet.model.spark_call import SparkCall
from watersmeet.model.stream import check_name
from watersmeet.model.targets import FOLDERS, targets

MAX_ALIASES = 16  # unless the options of the engine say otherwise
_FORMATS = ("parquet", "json", "csv", "console", "count")


def sink_formats() -> tuple[str, ...]:
    """The formats that may follow INTO."""
    return (*_FORMATS, *targets())


@dataclass(frozen=True)
class Sink:
    """Where results go: files in a folder, the console, or a target outside of the home.

    Args:
        format: parquet, json, csv, console, count, kafka, delta or postgres.
        path: a folder, or what a target is named by, such as a topic; None: the folder of the query in the home.
        options: pairs of names and values; docs/options.md lists them.

    Example:
        >>> engine.query("out", "SELECT * FROM bids [RANGE 1 SECOND]", watersmeet.Sink("json", "out")).folder.name
        'out'
    """

    format: str = "parquet"
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_delivered(self) -> bool:
        """Whether results wait in the outbox until a target outside of the home has them.

        Example:
            >>> watersmeet.Sink("kafka", "rises").is_delivered
            True
        """
        return self.format not in _FORMATS

    @property
    def names_folder(self) -> bool:
        """Whether `path` is a folder of this machine.

        Example:
            >>> watersmeet.Sink("json", "out").names_folder
            True
        """
        return not self.is_delivered or self.format in FOLDERS


@dataclass(frozen=True)
class Query:
    """A query as an engine has it: name, form, sink, and when it was added."""

    name: str
    form: Form
    window: SlidingWindow | None = None  # for a windowed query; None: its results leave one by one
    sink: Sink = field(default_factory=Sink)
    sql: str = ""
    backfill: bool = False  # it also has the results among stored rows, and the windows that these cover completely
    since: int = 0  # the tick that was promised to be its first; 0 where it was declared before the start
    addition: str = ""  # names the change that added it to a running engine, for ever; "" where it was declared
    resumed: str = ""  # names the suspension that it was resumed from, for ever; "" where it never was
    reason: str = ""  # a sentence: why it has no faster form; "" for the fastest
    forms: tuple[Form, ...] = ()  # all that it could be computed in, the fastest first; empty: `form` is the only one

    def __post_init__(self) -> None:
        check_name("query", self.name)
        if self.join is not None:
            self.join.check(self.name)

    @cached_property
    def definition(self) -> Query:
        """The query without what depends on when it was added."""
        timeless = not (self.since or self.addition or self.backfill or self.resumed)
        return self if timeless else replace(self, since=0, addition="", backfill=False, resumed="")

    @cached_property
    def by_kind(self) -> dict[str, Form]:
        """The forms in which it can be computed, the fastest first."""
        return {form.kind: form for form in self.forms or (self.form,)}

    def in_form(self, form: Form) -> Query:
        """The same query, computed in another form."""
        return self if form is self.form else replace(self, form=form)

    @property
    def is_windowed(self) -> bool:
        return self.window is not None

    @property
    def grid(self) -> SlidingWindow:
        """The windows of a windowed query."""
        assert self.window is not None, f"{self.name} has no windows"
        return self.window

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self.form.outputs

    @property
    def join(self) -> JoinForm | None:
        """The join that the query is, or whose results it aggregates."""
        return self.form.join

    @property
    def joins(self) -> tuple[JoinForm, ...]:
        """The joins that it is computed by, or could be in another form."""
        return tuple(form.join for form in self.by_kind.values() if form.join is not None)

    @property
    def streams(self) -> tuple[str, ...]:
        """Each stream that it reads, once."""
        return self.form.streams

    @property
    def title(self) -> str:
        """What the query reads, as users see it."""
        return f"{', '.join(self.streams)} in windows" if self.join is None or self.is_windowed else self.join.title

    @property
    def spark_columns(self) -> dict[str, tuple[SparkCall, ...]]:
        """For each stream the columns that Spark computes for this query."""
        return self.join.spark_columns if self.join is not None else {}
