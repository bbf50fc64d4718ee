"""A study in words before it is run: what it would train, how large it would get, what it could
tell."""

from __future__ import annotations

from collections.abc import Iterable

from initmem.study.plan import Arm, Cell, arms, blocks, cell, count, draws
from initmem.study.recipe import Recipe
from initmem.study.size import checkpoint_bytes, large, parameters, readings, row_bytes
from initmem.study.spec import Study


def outline(study: Study) -> str:
    """Arms, axes, ranges and what they cost, a line each."""
    lines = [f"{study.name}: {size(study)}"]
    for arm in arms(study):
        named = ", ".join(arm.named)
        lines.append(f"arm {arm.index} {arm.id}: {named or 'the whole study'}")
    for field, values in study.axes.items():
        memory = " (memory axis)" if field == study.memory_axis else ""
        lines.append(f"axis {field}: {', '.join(map(str, values))}{memory}")
    for field, r in study.ranges.items():
        how = f"{r.points} points" if r.points else "searched"
        lines.append(f"range {field}: {r.low:g} to {r.high:g}{', log' if r.log else ''}, {how}")
    if study.search.level is not None:
        from initmem.memory.measures import MEASURES

        of = MEASURES[study.measure]
        level = of.level.format(study.search.level)
        lines.append(f"search: for where the mean {of.noun} crosses {level}")
    if study.search.stop_when is not None:
        lines.append(f"search: an arm's ends early when {study.search.stop_when}")
    return "\n".join([*lines, _cost(study)])


def size(study: Study) -> str:
    cells = len(arms(study)) * draws(study)
    first = sample(study, arms(study)[0])
    trials = cells * len(blocks(study, first))
    return (
        f"{many(len(arms(study)), 'arm')}, {at_most(study)}{many(cells, 'cell')}, "
        f"{many(count(study), 'replica')}, {many(trials, 'block')}"
    )


def at_most(study: Study) -> str:
    """Before a number of what a search that may end early asks for."""
    return "" if study.search.stop_when is None else "at most "


def early(study: Study, ended: dict[str, int]) -> str:
    """Where the search ended early, and why. ended: draws by arm, at least one."""
    several = len(arms(study)) > 1
    each = ", ".join(
        f"arm {arm.index} after {ended[arm.id]}" if several else f"after {ended[arm.id]}"
        for arm in arms(study)
        if arm.id in ended
    )
    why = study.search.stop_when
    return f"search ended early ({why}): {each} of at most {draws(study)} draws"


def _cost(study: Study) -> str:
    recipes = [r.recipe for arm in arms(study) for r in sample(study, arm).replicas]
    per_arm = draws(study)
    steps = sum(stage.total_steps for recipe in recipes for stage in recipe.stages) * per_arm
    table = sum(row_bytes(recipe) for recipe in recipes) * per_arm
    checkpoint = max(checkpoint_bytes(stage) for recipe in recipes for stage in recipe.stages)
    size = max(parameters(recipe) for recipe in recipes)
    return (
        f"{_staged(recipes, per_arm)}{at_most(study)}{steps:,} steps in all, "
        f"networks of up to {size:,} parameters\n"
        f"disk, about: {_bytes(2 * checkpoint)} of checkpoints for each replica in training, "
        f"{_bytes(table)} for the records" + _probed(recipes) + _faster(study, recipes)
    )


def _staged(recipes: list[Recipe], per_arm: int) -> str:
    """Of networks that are trained twice, what they learn first."""
    several = [recipe.stages for recipe in recipes if len(recipe.stages) > 1]
    if not several:
        return ""
    some = f"{len(several) * per_arm:,} of {len(recipes) * per_arm:,}"
    which = some if len(several) < len(recipes) else "all"
    firsts, seconds = (_up_to(stages[i].total_steps for stages in several) for i in (0, 1))
    return (
        f"two trainings of {which} networks: up to {firsts} (pretrain), then, with the readout "
        f"drawn anew, up to {seconds}\n"
    )


def _up_to(steps: Iterable[int]) -> str:
    return many(max(steps), "step")


def _probed(recipes: list[Recipe]) -> str:
    """What the probes read of a replica, where there are any."""
    names = dict.fromkeys(name for recipe in recipes for name in recipe.read)
    if not names:
        return ""
    counts = [readings(recipe) for recipe in recipes]
    steps, numbers = max(times for times, _ in counts), max(a * b for a, b in counts)
    return (
        f"\nprobes {', '.join(names)}: read at up to {many(steps, 'step')} of a replica, "
        f"about {many(numbers, 'reading')}"
    )


def _faster(study: Study, recipes: list[Recipe]) -> str:
    """That stacks of replicas may train faster than one after the other."""
    stacks = any(recipe.stacks and not large(recipe) for recipe in recipes)
    if study.resources.engine != "loop" or study.resources.replicas == 1 or not stacks:
        return ""
    return (
        "\nengine loop trains the networks of a block one after the other; "
        "--set resources.engine=auto takes what is fastest, with other bits"
    )


def resolution(study: Study) -> str:
    """What the study can tell, for three sizes of the noise that nobody knows beforehand."""
    if study.seeds == 1:
        return (
            "one seed says nothing about the noise: no cell can be decided; set seeds to 3 or more"
        )
    from initmem.memory.estimate import resolves
    from initmem.memory.measures import MEASURES

    values = len(study.axes[study.memory_axis])
    measure, lines = MEASURES[study.measure], []
    for sigma in measure.noises:
        floor, far, near = resolves(values, study.seeds, draws(study), sigma)
        below = study.threshold - near
        erased = f"erased below {below:.1f}" if below > 0 else "never erased"
        told = f"a spread of {floor:.1f} is to be expected of nothing"
        lines.append(
            f"if replicas differ by {sigma:g} {measure.unit} (sd): {told}; a cell remembers from "
            f"{max(far, study.threshold):.1f} {measure.unit} on and is {erased}"
        )
    return "\n".join(lines)


def sample(study: Study, arm: Arm) -> Cell:
    """A cell of an arm; a budget is the same in all."""
    return cell(study, arm, 0, {field: r.low for field, r in study.ranges.items()})


def many(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _bytes(number: float) -> str:
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} GB"
