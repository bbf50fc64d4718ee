"""What preserves planted features, the weak teacher or the way to train: arms held against each
other seed by seed, in a table and in words."""

from __future__ import annotations

import pandas as pd

from analysis.fine_tuning import interval
from analysis.planted import ARM, networks, varied
from analysis.style import listed
from analysis.tables import Run

MOST = 6
"""Places that a sentence names."""

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


def contrasts(run: Run) -> pd.DataFrame:
    """What is kept at the stop by one arm and not by another, seed by seed, all else being the
    same: a line for each of CONTRASTS whose arms are listed and each combination of `varied`.
    Columns: what, arm, reference, place (label), n, late (of these, pairs with a network that did
    not meet the stop rule), difference, low, high (95%, of all lines of the contrast together,
    Bonferroni)."""
    made = networks(run)
    if made.empty:
        return made
    made = made[made["when"] == "stop"]
    fields, arms = varied(run), set(made[ARM])
    keys = [*fields, "seed"]
    wide = made.pivot_table(index=keys, columns=ARM, values="kept")
    short = made[~made["met"]].set_index([ARM, *keys]).index
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
            pairs = [((arm, *key, seed), (reference, *key, seed)) for seed in group["seed"]]
            line["late"] = sum(any(one in short for one in pair) for pair in pairs)
            lines.append(line | dict(zip(("difference", "low", "high"), found, strict=True)))
    return pd.DataFrame(lines)


def summed(table: pd.DataFrame) -> list[str]:
    """Whether a way to train preserves whoever labels, and a weak teacher on its own, where a
    study has the arms to tell them apart."""
    known = set(table["what"]) if len(table) else set()
    if "the weak teacher, alone" not in known:
        return []
    more, less, places = _counts(table, "the weak teacher, alone")
    verb = "preserves" if more > less else "is not seen to preserve"
    sentences = [f"The weak teacher alone {verb}: more is kept than under the truth at {more} of "
                 f"{places} places, less at {less}."]  # fmt: skip
    for way in ("localized data", "projected updates"):
        under = {who: f"{way}, under {who}" for who in ("the weak teacher", "the truth")}
        if not set(under.values()) <= known:
            continue
        counts = {who: _counts(table, what) for who, what in under.items()}
        by = [who for who, (more, less, _) in counts.items() if more > less]
        verb = "preserve, whoever labels" if len(by) == 2 else (
            f"are seen to preserve only under {by[0]}" if by else "are not seen to preserve"
        )  # fmt: skip
        each = [
            f"under {who} more is kept at {more} of {places} places, less at {less}"
            for who, (more, less, places) in counts.items()
        ]
        sentences.append(f"{way.capitalize()} {verb}: {'; '.join(each)}.")
    return sentences


def _counts(table: pd.DataFrame, what: str) -> tuple[int, int, int]:
    """Places where more is kept, where less, and all."""
    lines = table[table["what"] == what]
    return int((lines["low"] > 0).sum()), int((lines["high"] < 0).sum()), len(lines)


def preserved(table: pd.DataFrame) -> list[str]:
    """A sentence a contrast: where more is kept, where less, and where it is undecided."""
    sentences = []
    for what, lines in table.groupby("what", sort=False) if len(table) else ():
        arm, reference = lines["arm"].iloc[0], lines["reference"].iloc[0]
        parts = []
        verdicts = {"keeps more": lines["low"] > 0, "keeps less": lines["high"] < 0}
        verdicts["is undecided"] = ~(verdicts["keeps more"] | verdicts["keeps less"])
        for verdict, chosen in verdicts.items():
            each = [
                f"{line['place']} ({change(line['difference'], line['low'], line['high'])})"
                for line in lines[chosen].to_dict("records")
            ]
            if each:
                parts.append(f"{verdict} at {shown(each, len(lines))}")
        sentences.append(
            f"{str(what).capitalize()} ({arm} against {reference}): {', '.join(parts)}; "
            f"n = {lines['n'].min()} seeds{_late(lines)}."
        )
    return sentences


def _late(lines: pd.DataFrame) -> str:
    late, pairs = lines["late"].sum(), lines["n"].sum()
    return f", {late} of {pairs} pairs with a network short of the stop rule" if late else ""


def shown(each: list[str], count: int) -> str:
    """Places in words; where they are many, how many of all."""
    return "; ".join(each) if len(each) <= MOST else f"{len(each)} of {count} places"


def change(mean: float, low: float, high: float) -> str:
    return f"{mean:+.2f}" + ("" if pd.isna(low) else f", {low:+.2f} to {high:+.2f}")
