"""Heads that learn a random label of each training example (arXiv 2607.11541).

They read what layers of a network give and learn by an optimizer of their own, in the network's
own steps. All that is random about them is drawn from streams of its own, and gradients of theirs
and of the network's never meet but in the regularizer, whose weights are constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from initmem.data.dataset import order
from initmem.study.random_labels_section import Heads
from initmem.study.seeds import fold

EPS = 1e-8
"""Added to the variance of a standardized feature: a dead one is 0."""

Features = Sequence[Tensor]
"""What each layer with a head gives for the same examples, [B, d] each."""


@dataclass(frozen=True)
class Answers:
    """Of K heads to N training examples."""

    p_KN: Tensor
    """Probability of the example's random label."""
    right_KN: Tensor
    """Whether that is the likeliest one."""


class Head(nn.Module):
    """Features [B, d] -> logits [B, n], linear but for the standardization of features."""

    def __init__(self, width: int, n: int, standardize: bool) -> None:
        super().__init__()
        self.standardize = standardize
        self.norm = nn.BatchNorm1d(width, EPS, affine=False) if standardize else nn.Identity()
        self.linear = nn.Linear(width, n)

    def forward(self, h_BD: Tensor) -> Tensor:
        return self.linear(self.norm(h_BD))

    def judged(self, h_BD: Tensor) -> Tensor:
        """The same logits of a training batch, by weights that are constants."""
        if self.standardize:
            h_BD = F.batch_norm(h_BD, None, None, training=True, eps=EPS)
        return F.linear(h_BD, self.linear.weight.detach(), self.linear.bias.detach())


class RandomLabels:
    """The heads of one network in training; without any, nothing."""

    def __init__(
        self, section: Any, layers: dict[str, int], network: nn.Module, count: int, seed: int
    ) -> None:
        """section: of the recipe; layers: name -> width of those that the network has; count:
        training examples, each of which has a label by the seed and its place."""
        self.seed, self.names = seed, list[str]()
        self.seen: dict[str, Tensor] = {}
        if not isinstance(section, Heads):
            return
        self.section, self.widths = section, layers
        self.device = next(network.parameters()).device
        self.names, self.suppressed = section.layers(layers), section.suppressed(layers)
        self.labels_N = random_labels(count, section.n, seed).to(self.device)
        self.modules = {name: network.get_submodule(name) for name in self.names}
        self.heads = self.fresh("heads")
        self.optimizer = _adam(self.heads, section.lr)
        # Right answers of each head in the steps since they were last told, and all answers.
        self.right_K = torch.zeros(len(self.names), dtype=torch.int64, device=self.device)
        self.asked = 0
        for name, module in self.modules.items():
            module.register_forward_hook(partial(self._see, name))

    def _see(self, name: str, module: nn.Module, _inputs: object, output: Tensor) -> None:
        if module.training:
            acts = self.section.strength and name in self.suppressed
            self.seen[name] = pooled(output if acts else output.detach())

    def fresh(self, stream: str) -> list[Head]:
        """Heads of all layers as they begin."""
        made = []
        with torch.random.fork_rng(devices=[]):
            for name in self.names:
                torch.default_generator.manual_seed(fold(self.seed, "random labels", stream, name))
                made.append(Head(self.widths[name], self.section.n, self.section.standardize))
        return [head.to(self.device) for head in made]

    def added_to(self, loss: Tensor, chosen_B: Tensor) -> Tensor:
        """The loss of the batch that was just seen, with what takes its random labels out."""
        if not self.names or not self.section.strength:
            return loss
        labels_B = self.labels_N[chosen_B]
        for name, head in zip(self.names, self.heads, strict=True):
            if name in self.suppressed:
                logits_BN = head.judged(self.seen[name])
                loss = loss + self.section.strength * avoidance(logits_BN, labels_B)
        return loss

    def learn(self, chosen_B: Tensor) -> None:
        """A step of the heads, on what the network just gave for these training examples."""
        if not self.names:
            return
        assert len(self.seen) == len(self.names), "one forward pass a step"
        labels_B = self.labels_N[chosen_B]
        features = [self.seen.pop(name) for name in self.names]
        self.right_K += _step(self.optimizer, self.heads, features, labels_B)
        self.asked += len(labels_B)

    def told(self) -> list[float] | None:
        """Percent right of each head in the steps since this was last asked, before each step."""
        if not self.asked:
            return None
        shares = (100 * self.right_K / self.asked).tolist()
        self.right_K.zero_()
        self.asked = 0
        return shares

    def state(self) -> dict[str, Any]:
        if not self.names:
            return {}
        heads = [{k: v.clone() for k, v in head.state_dict().items()} for head in self.heads]
        told = {"right": self.right_K.clone(), "asked": self.asked}
        return {"heads": heads, "optimizer": self.optimizer.state_dict(), **told}

    def load(self, state: dict[str, Any]) -> None:
        if not self.names:
            return
        for head, saved in zip(self.heads, state["heads"], strict=True):
            head.load_state_dict(saved)
        self.optimizer.load_state_dict(state["optimizer"])
        self.right_K.copy_(state["right"])
        self.asked = state["asked"]

    @torch.no_grad()
    def answers(self, heads: Sequence[Head], batches: Iterable[Features]) -> Answers:
        """Of heads, from the features of all training examples in their order."""
        p, right, start = [], [], 0
        for features in batches:
            labels_B = self.labels_N[start : start + len(features[0])]
            start += len(labels_B)
            logits = [head.eval()(h_BD) for head, h_BD in zip(heads, features, strict=True)]
            logits_KBn = torch.stack(logits)
            asked_KB = labels_B.expand(len(heads), -1)
            p.append(logits_KBn.softmax(dim=2).gather(2, asked_KB[:, :, None]).squeeze(2))
            right.append(logits_KBn.argmax(dim=2) == asked_KB)
        for head in heads:
            head.train()
        return Answers(torch.cat(p, dim=1), torch.cat(right, dim=1))

    def controlled(self, batches: Iterable[Features], size: int, epochs: int) -> list[Head]:
        """Fresh heads, trained on these features alone, `size` examples a step."""
        heads = self.fresh("control")
        optimizer, count = _adam(heads, self.section.lr), len(self.labels_N)
        whole = [torch.cat(parts) for parts in zip(*batches, strict=True)]
        for epoch in range(epochs):
            order_N = order(count, self.seed, "control", epoch).to(self.device)
            for chosen_B in order_N[: count - count % size].split(size):
                parts = [h_ND[chosen_B] for h_ND in whole]
                _step(optimizer, heads, parts, self.labels_N[chosen_B])
        return heads


def random_labels(count: int, n: int, seed: int) -> Tensor:
    """int64 [N], uniform in range(n)."""
    generator = torch.Generator().manual_seed(fold(seed, "random labels"))
    return torch.randint(n, (count,), generator=generator)


def pooled(output: Tensor) -> Tensor:
    """What a layer gives as features [B, d]: images [B, d, H, W] averaged over pixels, sequences
    [B, L, d] over positions; float32."""
    if output.ndim == 4:
        output = output.mean(dim=(2, 3))
    elif output.ndim == 3:
        output = output.mean(dim=1)
    return output.float()


def avoidance(logits_BN: Tensor, labels_B: Tensor) -> Tensor:
    """The batch's mean of -log(1 - p), p the probability of the label: as the difference of two
    sums of exponentials, so that its slope p by the label's logit is exact also where p is 1."""
    others_BN = logits_BN.scatter(1, labels_B[:, None], -torch.inf)
    return (logits_BN.logsumexp(dim=1) - others_BN.logsumexp(dim=1)).mean()


def complexity(share: float, n: int) -> float:
    """(share - 1/n) / (1 - 1/n) of a share of random labels that is right: 0 at chance, 1 for all.

    For n = 2 it is the correlation 2 share - 1 with random signs, which one draw of labels and the
    supremum over a class make the empirical Rademacher complexity of the class: for the linear
    heads on these features a lower bound, as far as the optimizer came. The correction for n
    labels is ours; arXiv 2607.11541 takes the accuracy itself.
    """
    return (share - 1 / n) / (1 - 1 / n)


def _adam(heads: Sequence[Head], lr: float) -> torch.optim.Adam:
    return torch.optim.Adam([p for head in heads for p in head.parameters()], lr, fused=True)


def _step(
    optimizer: torch.optim.Optimizer,
    heads: Sequence[Head],
    features: Sequence[Tensor],
    labels_B: Tensor,
) -> Tensor:
    """One step of each head down its cross-entropy; right answers before it, int64 [K]."""
    losses, right = [], []
    for head, h_BD in zip(heads, features, strict=True):
        logits_BN = head(h_BD.detach())
        losses.append(F.cross_entropy(logits_BN, labels_B))
        right.append((logits_BN.detach().argmax(dim=1) == labels_B).sum())
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()
    optimizer.step()
    return torch.stack(right)
