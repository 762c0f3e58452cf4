"""A plan in one of the output formats: text, JSON or SVG."""

from __future__ import annotations

import json

from watersmeet.errors import ModelError
from watersmeet.plan.draw import draw
from watersmeet.plan.explain import explain
from watersmeet.plan.rendered import RenderedPlan

FORMATS = ("text", "json", "svg")


def plan_text(plan: RenderedPlan, kind: str) -> str:
    check_format(kind)
    if kind == "json":
        return json.dumps(plan.as_json(), indent=1)
    return draw(plan) if kind == "svg" else explain(plan)


def check_format(kind: str) -> None:
    if kind not in FORMATS:
        raise ModelError(f"unknown format {kind}", hint=f"use one of {', '.join(FORMATS)}")
