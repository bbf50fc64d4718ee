"""Rows of networks with planted features -> what they learned and what they kept, in tables and in
words; see `weak_to_strong.py` for the figures.

At the stop is the evaluation at which the stop rule was met (column aligned_step), or the last one
where it was not. At the end is the last evaluation: `optim.beyond` times as many steps, or the
budget.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.curves import having
from analysis.fine_tuning import interval
from analysis.generalization import APART
from analysis.ood import mean_of
from analysis.style import listed, number
from analysis.tables import Run

ARM = "data.arm"
ARMS = ("sft", "w2s_localized", "w2s_projected", "w2s_plain", "sft_localized", "sft_projected",
        "w2s_inside")  # fmt: skip
WHEN = {"stop": "at the stop", "end": "at the end"}
READ = ("on_target", "to_limit", "kept", "captured")
PAIRWISE = {"task_1": "validation_accuracy", "task_2": "ood_accuracy"}
"""Percent of pairs in the right order, by the true reward and by that of the other feature."""
MOST = 6
"""Places that a sentence names."""
SMALL = 1e-3
"""Of a cosine: what is not told as a change."""

CONTRASTS = {
    "the weak teacher, alone": ("w2s_plain", "sft"),
    "the weak teacher, on localized data": ("w2s_localized", "sft_localized"),
    "localized data, under the weak teacher": ("w2s_localized", "w2s_plain"),
    "localized data, under the truth": ("sft_localized", "sft"),
    "projected updates, under the weak teacher": ("w2s_projected", "w2s_plain"),
    "projected updates, under the truth": ("sft_projected", "sft"),
    "weak teacher and localized data": ("w2s_localized", "sft"),
    "weak teacher and projected updates": ("w2s_projected", "sft"),
}
"""What is changed -> arm and reference. The last two, which change two things, are told where a
study does not have the arms that take them apart."""


def varied(run: Run) -> list[str]:
    """What a study lists or searches, but the arm."""
    return [field for field in (*run.study.axes, *run.study.ranges) if field != ARM]


def networks(run: Run) -> pd.DataFrame:
    """A line a network that neither diverged nor failed, and each of WHEN: cell, seed, ARM, the
    fields of `varied`, data.cosine, data.s, data.d, when, step, met (whether the stop rule was),
    READ (cosines), PAIRWISE (percent). Empty without such networks."""
    rows = run.rows[run.rows["data.name"] == "gaussian_pairs"]
    rows = having(rows[~rows["state"].isin(APART)], "readings")
    fields = dict.fromkeys(("cell", "seed", ARM, *varied(run), "data.cosine", "data.s", "data.d"))
    lines = []
    for row in rows.to_dict("records"):
        read = {
            (one["step"], one["quantity"]): one["value"]
            for one in row["readings"]
            if one["probe"] == "features"
        }
        curve = {point["step"]: point for point in row["curve"]}
        met = pd.notna(row["aligned_step"])
        for when, step in (
            ("stop", row["aligned_step"] if met else max(curve)),
            ("end", max(curve)),
        ):
            line = {str(field): row[field] for field in fields}
            line |= {"when": when, "step": int(step), "met": met}
            line |= {what: read.get((step, what), np.nan) for what in READ}
            lines.append(line | {name: curve[step][c] for name, c in PAIRWISE.items()})
    return pd.DataFrame(lines)


def means(run: Run) -> pd.DataFrame:
    """Over seeds, a line for each arm, combination of `varied` and of WHEN: these, panel (label of
    what is neither arm, rho, cosine nor scale), n, met (networks that met the stop rule), step
    (mean), and for READ and PAIRWISE the mean and its 95% interval (Student's t) as kept.low."""
    made = networks(run)
    if made.empty:
        return made
    keys = [ARM, *varied(run), "when"]
    drawn = {"data.rho", "data.cosine", "init.scale"}
    others = [field for field in varied(run) if field not in drawn]
    lines = []
    for key, group in made.groupby(keys, sort=False):
        line: dict[str, Any] = dict(zip(keys, key, strict=True))
        line |= {field: group[field].iloc[0] for field in ("data.cosine", "data.s", "data.d")}
        line["panel"] = listed({field: line[field] for field in others})
        line |= {"n": len(group), "met": int(group["met"].sum()), "step": group["step"].mean()}
        for name in (*READ, *PAIRWISE):
            most = 1.0 if name in READ else 100.0
            ends = mean_of(group[name].to_numpy(float), most)
            line |= dict(zip((name, f"{name}.low", f"{name}.high"), ends, strict=True))
        lines.append(line)
    return pd.DataFrame(lines)


def texts(run: Run, made: pd.DataFrame) -> pd.DataFrame:
    """The means as they are read."""
    lines = []
    for line in made.to_dict("records"):
        text = {"arm": line[ARM], **{field: number(line[field]) for field in varied(run)}}
        text |= {"": WHEN[line["when"]], "step": f"{line['step']:.0f}"}
        for name in READ:
            between = ""
            if name in ("on_target", "kept") and pd.notna(line[f"{name}.low"]):
                between = f" ({line[f'{name}.low']:.2f} to {line[f'{name}.high']:.2f})"
            text[name.replace("_", " ")] = f"{line[name]:.3f}{between}"
        text |= {name.replace("_", " "): f"{line[name]:.1f}%" for name in PAIRWISE}
        text["n"] = (
            f"{line['n']}" if line["met"] == line["n"] else f"{line['n']}, {line['met']} met"
        )
        lines.append(text)
    return pd.DataFrame(lines)


def contrasts(run: Run) -> pd.DataFrame:
    """What is kept at the stop by one arm and not by another, seed by seed, all else being the
    same: a line for each of CONTRASTS whose arms are listed and each combination of `varied`.
    Columns: what, arm, reference, place (label), n, difference, low, high (95%, of all lines of
    the contrast together, Bonferroni)."""
    made = networks(run)
    if made.empty:
        return made
    made = made[made["when"] == "stop"]
    fields, arms = varied(run), set(made[ARM])
    wide = made.pivot_table(index=[*fields, "seed"], columns=ARM, values="kept")
    lines = []
    for what, (arm, reference) in CONTRASTS.items():
        apart = what in list(CONTRASTS)[:-2]
        if not {arm, reference} <= arms or (not apart and "w2s_plain" in arms):
            continue
        each = (wide[arm] - wide[reference]).dropna().reset_index(name="apart")
        groups = list(each.groupby(fields))
        for key, group in groups:
            found = interval(group["apart"].to_numpy(), len(groups))
            line = {"what": what, "arm": arm, "reference": reference, "n": len(group)}
            line["place"] = listed(dict(zip(fields, key, strict=True)))
            lines.append(line | dict(zip(("difference", "low", "high"), found, strict=True)))
    return pd.DataFrame(lines)


def said(run: Run) -> list[str]:
    """What is learned beyond the teacher, what preserves, what is lost after the stop, and what a
    larger scale does."""
    made = networks(run)
    late = made[(made["when"] == "stop") & ~made["met"]]
    missed = [f"{len(late)} networks did not meet the stop rule within their budget."] * bool(
        len(late)
    )
    return [*_beyond(made), *_preserved(contrasts(run)), *_after(run, made), *_scaled(run, made),
            *missed]  # fmt: skip


def _beyond(made: pd.DataFrame) -> list[str]:
    sentences = []
    at_stop = made[(made["when"] == "stop") & made[ARM].str.startswith("w2s")]
    key: Any
    for key, group in at_stop.groupby([ARM, "data.cosine"], sort=False):
        arm, cosine = key
        each = group.groupby("seed")["on_target"].mean().to_numpy()
        mean, low, high = mean_of(each, 1.0)
        between = "" if pd.isna(low) else f" ({low:.3f} to {high:.3f})"
        verb = "passes" if low > cosine else "stays below" if high < cosine else "is not told from"
        sentences.append(
            f"{arm} {verb} its teacher: on target {mean:.3f}{between} against "
            f"{number(cosine)} at the stop, n = {len(each)} seeds."
        )
    return sentences


def _preserved(table: pd.DataFrame) -> list[str]:
    sentences = []
    for what, lines in table.groupby("what", sort=False) if len(table) else ():
        arm, reference = lines["arm"].iloc[0], lines["reference"].iloc[0]
        parts = []
        verdicts = {"keeps more": lines["low"] > 0, "keeps less": lines["high"] < 0}
        verdicts["is undecided"] = ~(verdicts["keeps more"] | verdicts["keeps less"])
        for verdict, chosen in verdicts.items():
            each = [
                f"{line['place']} ({_change(line['difference'], line['low'], line['high'])})"
                for line in lines[chosen].to_dict("records")
            ]
            if each:
                parts.append(f"{verdict} at {_listed(each, len(lines))}")
        sentences.append(
            f"{str(what).capitalize()} ({arm} against {reference}): {', '.join(parts)}; "
            f"n = {lines['n'].min()} seeds."
        )
    return sentences


def _listed(each: list[str], count: int) -> str:
    """Places in words; where they are many, how many of all."""
    return "; ".join(each) if len(each) <= MOST else f"{len(each)} of {count} places"


def _change(mean: float, low: float, high: float) -> str:
    return f"{mean:+.2f}" + ("" if pd.isna(low) else f", {low:+.2f} to {high:+.2f}")


def _after(run: Run, made: pd.DataFrame) -> list[str]:
    """What is lost between stop and end, where its interval is below 0."""
    fields = varied(run)
    wide = made.pivot_table(index=[ARM, *fields, "seed"], columns="when", values="kept")
    apart = (wide["end"] - wide["stop"]).dropna().reset_index(name="apart")
    sentences = []
    for arm, of_arm in apart.groupby(ARM, sort=False):
        groups, lost = list(of_arm.groupby(fields)), []
        for key, group in groups:
            mean, low, high = interval(group["apart"].to_numpy(), len(groups))
            if mean < -SMALL and high < 0:
                place = listed(dict(zip(fields, key, strict=True)))
                lost.append(f"{place} ({_change(mean, low, high)})")
        text = (
            f"loses at {_listed(lost, len(groups))}"
            if lost
            else "loses nothing that is beyond its spread"
        )
        sentences.append(f"Between stop and end {arm} {text}.")
    return sentences


def _scaled(run: Run, made: pd.DataFrame) -> list[str]:
    """What is kept at the largest scale of the planted features less that at the smallest."""
    if "init.scale" not in varied(run):
        return []
    scales = sorted(made["init.scale"].unique())
    keys = [f for f in varied(run) if f != "init.scale"]
    wide = made.pivot_table(
        index=[ARM, *keys, "seed", "when"], columns="init.scale", values="kept"
    )
    apart = (wide[scales[-1]] - wide[scales[0]]).dropna().reset_index(name="apart")
    arms = apart[ARM].nunique()
    sentences = []
    for (arm, when), group in apart.groupby([ARM, "when"], sort=False):
        mean, low, high = interval(group.groupby("seed")["apart"].mean().to_numpy(), 2 * arms)
        verb = "keeps more" if low > 0 else "keeps less" if high < 0 else "is undecided"
        where = f"{number(scales[-1])} against {number(scales[0])}, {arm} {WHEN[str(when)]}"
        found = f"{_change(mean, low, high)}, n = {group['seed'].nunique()} seeds"
        sentences.append(f"Scale {where}: {verb} ({found}).")
    return sentences
