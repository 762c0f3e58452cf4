"""What several commands have: arguments, options, and the form of their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from watersmeet.errors import WatersmeetError
from watersmeet.home.location import home_at

PipelineFile = Annotated[
    Path,
    typer.Argument(
        metavar="PIPELINE.SQL",
        exists=True,
        dir_okay=False,
        show_default=False,
        help="A file of CREATE STREAM and CREATE QUERY statements.",
    ),
]


def help_text(*paragraphs: str, examples: tuple[str, ...] = ()) -> str:
    """Help that is no docstring: its line breaks would stay, wherever the edge of the terminal is."""
    shown = "\n".join(f"  {example}" for example in examples)
    return "\n\n".join([*paragraphs, *(["Examples:", shown] if examples else [])])


def checked_home(home: Path | None) -> Path | None:
    """The home, if it can be one; otherwise wrong usage, which the engine would reject too."""
    try:
        if home is not None:
            home_at(home)
    except WatersmeetError as problem:
        raise typer.BadParameter(str(problem)) from None
    return home


def home_option(text: str) -> Any:
    return typer.Option(file_okay=False, callback=checked_home, help=text)


Home = Annotated[Path, home_option("The home folder of a running or stopped engine.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds to wait for the engine's reply.")]
Format = Annotated[str, typer.Option("--format", help="text or json.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        show_default=False,
        help="An option of the engine (see docs/options.md), or of Spark if its name has a dot. Repeatable.",
    ),
]
HOME = Path("watersmeet-home")
TIMEOUT = 30.0


def given_options(settings: list[str] | None) -> dict[str, Any]:
    """`--set name=value` as options of the engine; a wrong one is wrong usage."""
    from watersmeet.options import read_options

    options: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{setting!r} does not have the form NAME=VALUE", param_hint="--set")
        options[name.strip()] = value.strip()
    try:
        read_options(options)
    except WatersmeetError as problem:
        raise typer.BadParameter(str(problem), param_hint="--set") from None
    return options


def check_format(kind: str) -> None:
    if kind not in ("text", "json"):
        raise typer.BadParameter(f"unknown format {kind}; use text or json", param_hint="--format")


def text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as problem:
        raise WatersmeetError(f"{file} is not UTF-8 text", detail=str(problem)) from None
    except OSError as problem:
        raise WatersmeetError(f"{file} cannot be read: {problem.strerror or problem}") from None
