"""Jars from Maven, in a folder of the project that git ignores."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.waiting import PATIENCE

FOLDER = Path(__file__).parents[3] / ".connectors"


def java() -> str | None:
    return shutil.which("java")


def maven() -> str | None:
    return shutil.which("mvn")


def jars(name: str, *artifacts: str, excluded: tuple[str, ...] = ()) -> Path:
    """The folder with these artifacts ("group:name:version") and all that they need; fetched once."""
    folder = FOLDER / name
    libraries = folder / "libs"
    if libraries.is_dir():
        return libraries
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_pom(name, artifacts, excluded))
    draft = folder / "libs.draft"
    shutil.rmtree(draft, ignore_errors=True)
    command = [
        "mvn",
        "-q",
        "-B",
        "dependency:copy-dependencies",
        f"-DoutputDirectory={draft}",
        "-DincludeScope=runtime",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    draft.rename(libraries)
    return libraries


def _pom(name: str, artifacts: tuple[str, ...], excluded: tuple[str, ...]) -> str:
    without = "".join(
        f"<exclusion><groupId>{one.split(':')[0]}</groupId><artifactId>{one.split(':')[1]}</artifactId></exclusion>"
        for one in excluded
    )
    wanted = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>".format(*one.split(":"))
        + (f"<exclusions>{without}</exclusions>" if without else "")
        + "</dependency>"
        for one in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>watersmeet.tests</groupId><artifactId>{name}</artifactId><version>1</version>"
        f"<dependencies>{wanted}</dependencies></project>"
    )
