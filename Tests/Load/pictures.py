"""The pictures of README.md and RESULTS.md, drawn from the last figures that were committed (figures/*.json)."""

import json
import pathlib
import textwrap

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402 (after the choice of what it draws with)

FIGURES = pathlib.Path(__file__).resolve().parent / "figures"
OURS, THEIRS, LIMIT, SECOND = "#1f6f5c", "#b0563b", "#9aa3ab", "#5b7fb5"


def main() -> None:
    # Text stays text: readable by machines, and small.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "posthouse", "font.size": 9,
                            "axes.spines.top": False, "axes.spines.right": False}
    draw("goals", goals)
    draw("growth", growth)


def draw(name: str, picture) -> None:
    source = FIGURES / f"{name}.json"
    if not source.exists():
        print(f"there is no {source.name}: deploy/bench --json writes it")
        return
    figure = picture(json.loads(source.read_text()))
    target = source.with_suffix(".svg")
    # Without a date, so that the same figures make the same file.
    figure.savefig(target, metadata={"Date": None}, bbox_inches="tight", facecolor="white")
    print(f"drew {target.name}")


def goals(report: dict):
    rows = {row["goal"] + row["what"]: row for row in report["goals"]}
    figure, (acknowledged, settled, all_goals) = pyplot.subplots(
        1, 3, figsize=(12, 4.2), width_ratios=[0.8, 1.1, 1.6], layout="constrained")
    p1, p2, p3 = (next(row for row in rows.values() if row["goal"] == goal) for goal in ("P1", "P2", "P3"))
    bars(acknowledged, "events acknowledged, per second", [
        ("Posthouse\nfull ledger", p1["figure"]["median"], OURS), ("limit: pgbench\none row a commit",
                                                                   p1["compared"]["median"], LIMIT)])
    bars(settled, "deliveries settled, per second", [
        ("Posthouse", p2["figure"]["median"], OURS), ("peer: FastAPI\npgqueuer, aiohttp", p2["compared"]["median"],
                                                      THEIRS), ("limit: nginx\nanswering 204",
                                                                p3["compared"]["median"], LIMIT)])
    nearness(all_goals, list(rows.values()))
    machine = report["machine"]
    figure.suptitle(f"{machine['cores']} cores, shared by load, PostgreSQL {machine['postgresql'].split()[0]}, daemon "
                    f"and receivers; {machine['taken_at'][:10]}", fontsize=9)
    return figure


def bars(axes, title: str, values: list[tuple[str, float, str]]) -> None:
    drawn = axes.bar([name for name, _, _ in values], [value for _, value, _ in values],
                     color=[colour for _, _, colour in values], width=0.6)
    axes.bar_label(drawn, [f"{value:,.0f}" for _, value, _ in values])
    axes.set_title(title, fontsize=9)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=7, length=0)


def nearness(axes, rows: list[dict]) -> None:
    """Each goal's figure in parts of what was aimed at; to the right of the line it is met."""
    names, values = [], []
    for row in reversed(rows):
        sign, aim = row["aim"].split()
        judged = row.get("ratio", row["figure"])["median"]
        values.append(judged / float(aim) if sign == "≥" else float(aim) / judged)
        names.append(textwrap.fill(f"{row['goal']}  {row['what']}", 64))
    axes.barh(names, [value - 1 for value in values], left=1,
              color=[OURS if value >= 1 else THEIRS for value in values], height=0.6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "goal", "×2", "×4"])
    axes.minorticks_off()
    axes.tick_params(axis="y", labelsize=6, length=0)
    axes.set_title("against the goals", fontsize=9)


def growth(report: dict):
    figure, axes = pyplot.subplot_mosaic("aabbcc;dddeee", figsize=(11, 6.4), layout="constrained")
    stored = report["growth"]["stored"]
    steady = [point for point in stored if point["when"] == "steady"]
    over_size(axes["a"], [point for point in steady if not point["memory_limit"]],
              "µs of processor time an event, fan-out 3",
              {"daemon": ("daemon_us", 1, OURS), "PostgreSQL": ("postgresql_us", 1, SECOND)})
    over_size(axes["b"], [point for point in stored if not point["memory_limit"]], "kB of log an event",
              {"log": ("wal_bytes", 1000, LIMIT)})
    over_size(axes["c"], steady, "deliveries/s", {"deliveries": ("per_second", 1, THEIRS)})
    for panel, key, label, unit, per in (
            ("d", "integrations", "integrations, of which three select the event", "µs an event", "events"),
            ("e", "integrations_all_want", "integrations, which all select it", "µs a delivery", "deliveries")):
        points = report["growth"][key]
        for field, name, colour in (("daemon_us", "daemon", OURS), ("postgresql_us", "PostgreSQL", SECOND)):
            axes[panel].plot([point["size"] for point in points],
                             [point[field] * point["events"] / point[per] for point in points], "o-", color=colour,
                             label=name)
        finish(axes[panel], label, unit)
    return figure


def over_size(axes, points: list[dict], title: str, fields: dict[str, tuple[str, float, str]]) -> None:
    """A line for each figure, build, time and memory that was measured. `fields`: key, divisor and colour by name."""
    builds = list(dict.fromkeys(point["build"] for point in points))
    lines: dict[tuple, list[dict]] = {}
    for point in points:
        lines.setdefault((point["build"], point["when"], bool(point["memory_limit"])), []).append(point)
    for name, (field, divisor, colour) in fields.items():
        for (build, when, is_limited), line in lines.items():
            what = ([name] + [when] * (when != "steady") + ["half the memory"] * is_limited
                    + [build] * (len(builds) > 1))
            axes.plot([point["size"] for point in line], [point[field] / divisor for point in line],
                      ("s" if is_limited else "o") + ("-" if when == "steady" else ":"), color=colour,
                      alpha=1 if build == builds[0] else 0.4, label=", ".join(what))
    finish(axes, "events stored", title)
    axes.legend(frameon=False, fontsize=6)


def finish(axes, label: str, title: str) -> None:
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_title(title, fontsize=9)
    axes.legend(frameon=False)


if __name__ == "__main__":
    main()
