"""The goals of goals.yaml, and their judgement by results.

goals.yaml explains its fields. render.py asks for all goals of a result, plots.py for a bound.
"""

import operator
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any, Final, NamedTuple

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field

_MIB: Final = 1 << 20


class Goal(NamedTuple):
    """A goal, and whether a result reaches it."""

    what: str
    wanted: str
    measured: str
    reached: bool


_BOUNDS: Final = {
    "at_least": ("≥ ", operator.ge),
    "at_most": ("≤ ", operator.le),
    "below": ("< ", operator.lt),
    "equals": ("", operator.eq),
}


class _Goal(BaseModel):
    """A goal as goals.yaml states it; the fields are explained there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    what: str
    each: str = "[result]"
    measured: str
    at_least: float | str | None = None
    at_most: float | str | None = None
    below: float | str | None = None
    equals: float | str | None = None
    text: tuple[str, str]
    also: str = "true"
    values: dict[str, str] = Field(default_factory=dict, alias="with")
    gap: bool = False

    @property
    def bound(self) -> tuple[str, Any]:
        """The kind of the bound, and the bound."""
        return next((kind, b) for kind in _BOUNDS if (b := getattr(self, kind)) is not None)

    def judge(self, result: object) -> list[Goal]:
        """Hold each of its items against the bound."""
        return [self._judge(result, item) for item in _value(self.each, result=result)]

    def _judge(self, result: object, item: object) -> Goal:
        names = {"result": result, "it": item}
        kind, bound = self.bound
        sign, holds = _BOUNDS[kind]
        measured, bound = _value(self.measured, **names), _value(bound, **names)
        reached = holds(measured, bound) and _value(self.also, **names)
        names |= {name: _value(value, **names) for name, value in self.values.items()}
        wanted, shown = self.text[0].format(bound), self.text[1].format(measured, **names)
        if self.gap and not reached:
            shown += f", {abs(measured / bound - 1):.0%} off"
        return Goal(self.what.format(**names), sign + wanted, shown, reached)


def judge(name: str, result: object) -> list[Goal]:
    """Return the goals of a result that has this name."""
    return [each for goal in _goals().get(name, {}).values() for each in goal.judge(result)]


def bound_of(name: str, goal: str) -> float | None:
    """Return the bound of a goal in goals.yaml, for plots; None without such a goal."""
    found = _goals()[name].get(goal)
    return None if found is None else float(found.bound[1])


@cache
def jinja() -> Environment:
    """Return the environment of goals and template, with filters for numbers."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 # Markdown
    )
    environment.filters |= {
        "f": _formatted,
        "mib": _mib,
        "millions": _millions,
        "median": median,
        "mean": lambda numbers: mean([*numbers]),
    }
    return environment


def _formatted(number: float, spec: str = ",.0f") -> str:
    return format(number, spec)


def _mib(size: float, spec: str = "") -> str:
    return format(size / _MIB, f"{spec}.0f")


def _millions(count: float) -> str:
    return f"{count / 1e6:.3g} M"


@cache
def _goals() -> dict[str, dict[str, _Goal]]:
    document = yaml.safe_load(Path(__file__).with_name("goals.yaml").read_text())
    return {
        name: {goal.id: goal for goal in map(_Goal.model_validate, goals)}
        for name, goals in document.items()
    }


def _value(expression: object, **names: object) -> Any:  # noqa: ANN401 # any value
    """Evaluate a Jinja expression; a number stands for itself."""
    if not isinstance(expression, str):
        return expression
    return jinja().compile_expression(expression, undefined_to_none=False)(**names)
