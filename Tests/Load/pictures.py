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
    figure, panels = pyplot.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    what = [("stored", "events stored", "µs of processor time an event, fan-out 3", "events"),
            ("integrations", "integrations, three wanting the event", "µs an event", "events"),
            ("integrations_all_want", "integrations, all wanting it", "µs a delivery", "deliveries")]
    for axes, (key, label, unit, per) in zip(panels, what):
        points = report["growth"][key]
        share = [point["events"] / point[per] for point in points]
        for field, name, colour in (("daemon_us", "daemon", OURS), ("postgresql_us", "PostgreSQL", SECOND)):
            axes.plot([point["size"] for point in points],
                      [point[field] * part for point, part in zip(points, share)], "o-", color=colour, label=name)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(label)
        axes.set_title(unit, fontsize=9)
        axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
