"""A network with planted features, in training on a stream of pairs (after arXiv 2605.12908)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from initmem.data.dataset import Dataset, Split
from initmem.data.geometry import Geometry, gaussian
from initmem.data.preferences import batch, hermite
from initmem.models.two_layer import TwoLayer
from initmem.study.init_section import PlantedRule
from initmem.study.optim_section import OnlineSGD
from initmem.study.preference_data import GaussianPairs
from initmem.study.recipe import Recipe
from initmem.training.initialize import Audit, Drawn, group_of
from initmem.training.objective import preference_loss
from initmem.training.outcome import Outcome
from initmem.training.probes.features import mean_cosine
from initmem.training.replica import EVALUATION_BATCH, Measured, Training


class Online(Training):
    """Labels are preferences: 1 where the first of a pair is the better one."""

    network: TwoLayer

    def __init__(
        self, recipe: Recipe, seed: int, data: Dataset, device: torch.device, engine: str = "loop"
    ) -> None:
        assert isinstance(recipe.data, GaussianPairs) and isinstance(recipe.optim, OnlineSGD)
        assert data.geometry is not None
        self.pairs, self.optim, self.geometry = recipe.data, recipe.optim, data.geometry
        super().__init__(recipe, seed, data, device, engine)

    def begun(self, network: nn.Module) -> Audit:
        assert isinstance(network, TwoLayer) and isinstance(self.recipe.init, PlantedRule)
        known = self.geometry.to("cpu")
        if self.pairs.projected:
            network.stem.plane, network.body.plane = known.V1, known.V2
        return plant(network, self.recipe.init, known, self.seed)

    def chosen(self) -> Tensor:
        """None of a training set: a stream has pairs of its own for each step."""
        return torch.empty(0, dtype=torch.int64)

    def batch(self, chosen_B: Tensor) -> tuple[Tensor, Tensor]:
        """Of the next step; inputs by their coordinates, see `data.preferences.batch`."""
        made = batch(self.pairs, self.geometry, self.recipe.batch, self.seed, self.step)
        return made.inputs, made.targets

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        margins = self.network(inputs, self.geometry.seen)
        return preference_loss(margins, targets, self.network.slope).mean()

    @torch.no_grad()
    def measure(self, split: Split) -> Measured:
        """The loss is the network's; the accuracy is that of the order in which off-target neurons
        put pairs out of distribution, on-target neurons all others."""
        layer = self.network.body if split is self.data.ood else self.network.stem
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        predicted = []
        for inputs, targets in zip(
            split.inputs.split(EVALUATION_BATCH),
            split.targets.split(EVALUATION_BATCH),
            strict=True,
        ):
            margins = self.forward(inputs)
            loss += preference_loss(margins, targets, self.network.slope).double().sum()
            predicted.append(preferred(layer.weight, inputs, self.pairs.link))
        predicted_N = torch.cat(predicted)
        accuracy = self.data.accuracy(predicted_N == split.targets)
        return accuracy, loss.item() / len(split.targets), predicted_N

    def evaluated(self, train: Measured, validation: Measured, ood: Measured | None) -> None:
        super().evaluated(train, validation, ood)
        if self.finite:
            limit = self.geometry.limit
            self.curve[-1]["alignment"] = mean_cosine(self.network.stem.weight, limit)

    @property
    def aligned_step(self) -> int | None:
        """The first evaluation at which the stop rule was met."""
        goal = self.optim.stop_alignment
        return next((int(p["step"]) for p in self.curve if p["alignment"] >= goal), None)

    @property
    def ended(self) -> bool:
        met = self.aligned_step
        return super().ended or (met is not None and self.step >= self.optim.beyond * met)

    def course(self) -> Outcome:
        outcome = super().course()
        outcome.aligned_step, outcome.constant_loss = self.aligned_step, 0.0
        return outcome


@torch.no_grad()
def plant(network: TwoLayer, init: PlantedRule, known: Geometry, seed: int) -> Audit:
    """Set the start, on the CPU. The same noise for every scale, spread, rho and arm."""
    (N, _), (M, D), s = network.stem.weight.shape, network.body.weight.shape, known.V1.shape[1]
    on_ND = _rows(gaussian(N, s, stream=(seed, "on"))) @ known.V1.T.double()
    xi_MD = _rows(gaussian(M, s - 1, stream=(seed, "off"))) @ known.V2[:, 1:].T.double()
    signs_M1 = gaussian(M, 1, stream=(seed, "signs")).sign()
    feature = math.sqrt(1 - init.spread**2) * known.theta2.double()
    off_MD = signs_M1 * (feature + init.spread * xi_MD)
    audit, asked = Audit(), init.scale / math.sqrt(D)
    weights = {"stem.weight": on_ND, "body.weight": off_MD}
    for name, rows in weights.items():
        weight = network.get_parameter(name)
        weight.copy_(init.scale * _rows(rows))
        measured = weight.double().square().mean().sqrt().item()
        audit.drawn.append(Drawn(name, group_of(name), weight.numel(), asked, measured))
    return audit


def _rows(rows: Tensor) -> Tensor:
    """At unit length."""
    return rows / rows.norm(dim=1, keepdim=True)


def preferred(w_ND: Tensor, pairs_B2D: Tensor, link: str) -> Tensor:
    """int64 [B]: 1 where the mean over neurons of the link of w_j x / |w_j| is larger for the
    first. For h2 and neurons of one norm this is the order of the mean of (w_j x)^2."""
    rewards_B2 = hermite(link, pairs_B2D @ _rows(w_ND.detach()).T).mean(dim=2)
    return (rewards_B2[:, 0] > rewards_B2[:, 1]).long()
