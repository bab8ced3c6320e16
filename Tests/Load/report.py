"""Figures, what they are held against, and how they are shown: medians, with the spread beside them."""

import dataclasses
import statistics


@dataclasses.dataclass
class Row:
    """One figure of one goal. Where it is a ratio, `figures` and `against` were measured in turn, pair by pair."""

    goal: str
    what: str
    unit: str
    figures: list[float]
    # "≥ 1.5": of the ratio where there is one, else of the figure.
    aim: str
    against_what: str = ""
    against: list[float] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [figure / other for figure, other in zip(self.figures, self.against)]

    @property
    def judged(self) -> float:
        return statistics.median(self.ratios or self.figures)

    @property
    def is_met(self) -> bool:
        sign, limit = self.aim.split()
        return self.judged >= float(limit) if sign == "≥" else self.judged <= float(limit)

    def as_json(self) -> dict:
        row = {"goal": self.goal, "what": self.what, "unit": self.unit, "figure": spread(self.figures)}
        if self.against:
            row |= {"compared_with": self.against_what, "compared": spread(self.against), "ratio": spread(self.ratios)}
        return row | {"aim": self.aim, "met": self.is_met, "notes": self.notes}


def spread(values: list[float]) -> dict:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "all": values}


def number(value: float) -> str:
    """Three digits that mean something, and all that come before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def with_spread(values: list[float], unit: str = "") -> str:
    if not values:
        return ""
    text = number(statistics.median(values))
    if len(values) > 1:
        text += f" ({number(min(values))}–{number(max(values))})"
    return f"{text} {unit}".rstrip()


def table(rows: list[Row]) -> str:
    head = ["goal", "what", "figure", "compared with", "", "ratio", "aim", ""]
    lines = [head]
    for row in rows:
        lines.append([
            row.goal, row.what, with_spread(row.figures, row.unit), row.against_what,
            with_spread(row.against, row.unit), with_spread(row.ratios), row.aim, "met" if row.is_met else "NOT met"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    out = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    out.insert(1, "-" * max(map(len, out)))
    for row in rows:
        out += [f"{row.goal}: {note}" for note in row.notes]
    return "\n".join(out)
