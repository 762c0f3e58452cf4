"""Whether a folder can take the results of a query: it is empty, or a Delta table with its columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from watersmeet.errors import ModelError
from watersmeet.io.connectors.delta.schema import delta_types, differences, table_types
from watersmeet.model import Output
from watersmeet.model.types import outside


def check_table(query: str, folder: Path, outputs: tuple[Output, ...]) -> None:
    """Reads what the log says of the table, and no rows."""
    try:
        found = table_types(DeltaTable(folder).schema().to_json())
    except TableNotFoundError:
        if any(folder.iterdir()):
            raise ModelError(
                f"query {query}: {folder} is neither a Delta table nor empty", hint="name another folder after INTO"
            ) from None
        return
    except (DeltaError, OSError) as problem:
        raise ModelError(f"query {query}: the Delta table {folder} cannot be opened", detail=str(problem)) from None
    results = pa.schema([(output.name, outside(output.type)) for output in outputs])
    if reasons := differences(delta_types(results), found):
        raise ModelError(
            f"query {query}: the Delta table {folder} has other columns",
            detail="; ".join(reasons) + ".",
            hint="change the query, or name another folder after INTO",
        )
