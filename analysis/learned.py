"""What networks with planted features learned and what they kept, in tables and in words; see
`planted.py` for the rows behind them, `weak_to_strong.py` for the figures."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.fine_tuning import interval
from analysis.generalization import APART
from analysis.ood import mean_of
from analysis.planted import ALWAYS, ARM, PAIRWISE, READ, WHEN, networks, of_study, varied
from analysis.preserved import change, contrasts, preserved, shown, summed
from analysis.style import listed, number
from analysis.tables import Run

SMALL = 1e-3
"""Of a cosine: what is not told as a change."""


def means(run: Run) -> pd.DataFrame:
    """Over seeds, a line for each arm, combination of `varied` and of WHEN: these, the fields of
    ALWAYS, n, met (networks that met the stop rule), step (mean), and for READ and PAIRWISE the
    mean and its 95% interval (Student's t) as kept.low."""
    made = networks(run)
    if made.empty:
        return made
    keys = [ARM, *varied(run), "when"]
    lines = []
    for key, group in made.groupby(keys, sort=False):
        line: dict[str, Any] = dict(zip(keys, key, strict=True))
        line |= {field: group[field].iloc[0] for field in ALWAYS}
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
        for name in (*READ, *PAIRWISE):
            digits = 3 if name in READ else 1
            ends = [f"{line[f'{name}.{end}']:.{digits}f}" for end in ("low", "high")]
            between = "" if pd.isna(line[f"{name}.low"]) else f" ({' to '.join(ends)})"
            mean = f"{line[name]:.3f}" if name in READ else f"{line[name]:.1f}%"
            text[name.replace("_", " ")] = mean + between
        text["captured"] = f"{number(line['data.rho'])} -> {text['captured']}"
        text["n"] = (
            f"{line['n']}" if line["met"] == line["n"] else f"{line['n']}, {line['met']} met"
        )
        lines.append(text)
    return pd.DataFrame(lines)


def said(run: Run) -> list[str]:
    """What is learned beyond the teacher, what preserves, what is lost after the stop, what a
    larger scale does, and which networks are missing from this or short of it."""
    made, found = networks(run), contrasts(run)
    return [*_beyond(run, made), *summed(found), *preserved(found), *_after(run, made),
            *_scaled(run, made), *_short(run, made)]  # fmt: skip


def _short(run: Run, made: pd.DataFrame) -> list[str]:
    """How many networks do not say what the others do, by arm."""
    rows, once = of_study(run), made[made["when"] == "stop"]
    counted = {
        "that diverged or failed, left out": rows[rows["state"].isin(APART)],
        "that did not meet the stop rule within their budget, read at their last step": once[
            ~once["met"]
        ],
        "that met it, with a budget that ended before the time asked for beyond it": once[
            once["met"] & ~once["whole"]
        ],
    }
    sentences = []
    for what, lines in counted.items():
        each = ", ".join(f"{arm} {n}" for arm, n in lines[ARM].value_counts(sort=False).items())
        if each:
            sentences.append(f"Networks {what}: {len(lines)} ({each}).")
    return sentences


def _beyond(run: Run, made: pd.DataFrame) -> list[str]:
    """A seed's mean is over rho: neurons on target do not see the other feature."""
    sentences = []
    at_stop = made[(made["when"] == "stop") & made[ARM].str.startswith("w2s")]
    others = [f for f in varied(run) if f not in ("data.rho", "data.cosine")]
    key: Any
    for key, group in at_stop.groupby([ARM, "data.cosine", *others], sort=False):
        arm, cosine, *place = key
        each = group.groupby("seed")["on_target"].mean().to_numpy()
        mean, low, high = mean_of(each, 1.0)
        between = "" if pd.isna(low) else f" ({low:.3f} to {high:.3f})"
        at = f" at {listed(dict(zip(others, place, strict=True)))}" if others else ""
        verb = "passes" if low > cosine else "stays below" if high < cosine else "is not told from"
        sentences.append(
            f"{arm}{at} {verb} its teacher: on target {mean:.3f}{between} against "
            f"{number(cosine)} at the stop, n = {len(each)} seeds."
        )
    return sentences


def _after(run: Run, made: pd.DataFrame) -> list[str]:
    """What is lost between stop and end, where its interval is below 0, by networks that met the
    stop rule: the others have one time for both."""
    fields = varied(run)
    if not made["met"].any():
        return []
    wide = made[made["met"]].pivot_table(
        index=[ARM, *fields, "seed"], columns="when", values="kept"
    )
    apart = (wide["end"] - wide["stop"]).dropna().reset_index(name="apart")
    sentences = []
    for arm, of_arm in apart.groupby(ARM, sort=False):
        groups, lost = list(of_arm.groupby(fields)), []
        for key, group in groups:
            mean, low, high = interval(group["apart"].to_numpy(), len(groups))
            if mean < -SMALL and high < 0:
                place = listed(dict(zip(fields, key, strict=True)))
                lost.append(f"{place} ({change(mean, low, high)})")
        text = (
            f"loses at {shown(lost, len(groups))}"
            if lost
            else "loses nothing that is beyond its spread"
        )
        seeds = min(len(group) for _, group in groups)
        sentences.append(f"Between stop and end {arm} {text}; n = {seeds} seeds.")
    return sentences


def _scaled(run: Run, made: pd.DataFrame) -> list[str]:
    """What is kept at the largest scale of the planted features less that at the smallest."""
    if "init.scale" not in varied(run):
        return []
    scales = sorted(made["init.scale"].unique())
    if len(scales) < 2:
        return []
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
        found = f"{change(mean, low, high)}, n = {group['seed'].nunique()} seeds"
        sentences.append(f"Scale {where}: {verb} ({found}).")
    return sentences
