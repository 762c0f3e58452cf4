"""docs/semantics.md lists the table as it is. `python -m tests.semantics.test_docs` writes it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tests.semantics.examples import CASTS, ENTRIES, SPARK_ENTRIES
from tests.semantics.test_by_spark import ALL as COMPUTED
from tests.semantics.test_expressions import ALL
from tests.semantics.test_joins import KEYS, MORE, PREDICATES
from watersmeet.sql.functions.by_spark import BY_SPARK
from watersmeet.sql.functions.rejected import ALL as REJECTED

PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"


def listed() -> str:
    lines = ["| family | functions and operators | examples |", "|---|---|---|"]
    for family in dict.fromkeys(entry.family for entry in ENTRIES):
        for entry in (each for each in ENTRIES if each.family == family):
            names = ", ".join(f"`{name}`" for name in entry.names).replace("|", "\\|")
            lines.append(f"| {family} | {names} | {_shown(entry.examples)} |")
    lines.append(f"| conversion | `CAST`, `TRY_CAST`, `::` | {_shown(CASTS)} |")
    return "\n".join(lines)


def listed_by_spark() -> str:
    lines = ["| family | functions | examples |", "|---|---|---|"]
    for entry in SPARK_ENTRIES:
        names = ", ".join(f"`{name}`" for name in entry.names)
        lines.append(f"| {entry.family} | {names} | {_shown(entry.examples)} |")
    return "\n".join(lines)


def _shown(examples: tuple[str, ...]) -> str:
    return ", ".join(f"`{example}`" for example in examples).replace("|", "\\|")


def counts() -> str:
    joins = len(MORE) + len(PREDICATES) + len(KEYS)
    return (
        "| | |\n|---|---|\n"
        f"| functions and operators, proven | {sum(len(entry.names) for entry in ENTRIES)} |\n"
        f"| expressions that the suite compares as a column, a filter and a key | {len(ALL)} |\n"
        f"| predicates of two aliases and join keys that it compares in an engine | {joins} |\n"
        f"| functions computed by Spark | {len(BY_SPARK)} |\n"
        f"| expressions with them that the suite compares in an engine, as output, filter and key | {len(COMPUTED)} |\n"
        f"| rejected by name with a reason of their own | {len(REJECTED)}; all others too |\n"
        "| allowed to differ | 0: the suite fails at the first |"
    )


def sections() -> dict[str, str]:
    return {
        "counts": counts(),
        "table": listed(),
        "by spark": listed_by_spark(),
        "rejected": textwrap.fill(", ".join(f"`{name}`" for name in sorted(REJECTED)) + ".", 120),
    }


def test_the_page_lists_the_table() -> None:
    page = PAGE.read_text()
    for name, text in sections().items():
        assert f"<!-- {name} -->\n{text}\n<!-- end -->" in page, "python -m tests.semantics.test_docs writes it again"


if __name__ == "__main__":
    page = PAGE.read_text()
    for name, text in sections().items():
        new = f"<!-- {name} -->\n{text}\n<!-- end -->"
        page = re.sub(rf"<!-- {name} -->\n.*?\n<!-- end -->", lambda _, new=new: new, page, flags=re.DOTALL)  # type: ignore[misc]
    PAGE.write_text(page)
