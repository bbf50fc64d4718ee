"""One network in training: from its seed to its outcome, and all that must survive a kill.

Everything random is a function of the seed and a step or an epoch, so a checkpoint needs no
generator's state, and training that went on from one equals training that never stopped.
"""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Tensor, nn

from initmem.data.dataset import Dataset, Split, augment, order
from initmem.models import build
from initmem.models.diagonal import Diagonal
from initmem.study.data_section import Images
from initmem.study.init_section import DiagonalRule, FixedRule, GammaRule
from initmem.study.pretrain_section import Stage
from initmem.study.random_labels_section import Heads
from initmem.study.recipe import Recipe
from initmem.study.seeds import fold
from initmem.training import diagonal, objective
from initmem.training.batched_optimizers import Slots
from initmem.training.initialize import Audit, initialize, redraw
from initmem.training.optimizers import Stepper
from initmem.training.outcome import Outcome, Predictor, weight_norms
from initmem.training.penalty import Penalty
from initmem.training.probes import Reading, read
from initmem.training.probes.random_labels import confidences
from initmem.training.probes.weights import packed_cosines
from initmem.training.random_labels import RandomLabels

EVALUATION_BATCH = 512
STEPPERS: dict[str, Any] = {"loop": Stepper, "batched": Slots, "graph": Slots}
"""What keeps the optimizer's state of one network, by engine."""


Measured = tuple[float, float, Tensor]
"""Accuracy in percent, mean loss, and what is predicted, like the targets (see objective.py)."""


def conditions(device: torch.device, engine: str) -> dict[str, Any]:
    """What the bits of a training depend on beside recipe and seed, as columns of its row."""
    gpu = device.type != "cpu"
    return {
        "device": torch.cuda.get_device_name(device) if gpu else "cpu",
        "deterministic": not gpu or torch.are_deterministic_algorithms_enabled(),
        "engine": engine,
        "threads": torch.get_num_threads(),
        "version.torch": str(torch.__version__),
    }


class Training:
    """One network in training. `update` and `measure` are the reference: the plain module, alone;
    engine `batched` (see batched.py) has its own."""

    def __init__(
        self, recipe: Recipe, seed: int, data: Dataset, device: torch.device, engine: str = "loop"
    ) -> None:
        self.recipe, self.seed, self.data, self.device = recipe, seed, data, device
        self.conditions = conditions(device, engine)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(fold(seed, "init"))  # the GPU's stays as it is
            network = build(recipe.model, data.shape, data.classes, data.vocabulary, data.answers)
        self.redrawn = Audit()
        self.audit = self.begun(network)
        self.format = torch.channels_last if data.kind == "image" else torch.contiguous_format
        self.network = network.to(device).to(memory_format=self.format)
        self.start = {name: self._weight(name).clone() for name in self.audit.tensors}
        self.penalty = Penalty(recipe.penalty, self.network)
        self.random_labels = RandomLabels(
            recipe.random_labels,
            recipe.model.layers(),
            self.network,
            len(data.train.targets),
            seed,
        )
        self.stepper = STEPPERS[engine](recipe.optim, self.network, recipe.total_steps)
        self.step, self.finite = 0, True
        self.losses_T = torch.zeros(recipe.total_steps, device=device)
        self.curve: list[dict[str, float]] = []
        self.readings: list[Reading] = []
        self.best: dict[str, Tensor] = {}
        self.order_N = torch.empty(0, dtype=torch.int64)
        self.seconds, self.probing = 0.0, 0.0
        self.before: dict[str, Any] = {}
        """Of the first of two trainings, what the row keeps."""

    def begun(self, network: nn.Module) -> Audit:
        """Set the start of a network, on the CPU."""
        recipe = self.recipe
        if isinstance(network, Diagonal):
            assert isinstance(recipe.init, DiagonalRule)
            oracle = recipe.pretrain.name == "oracle"
            return diagonal.start(network, recipe.init, self.data.pretrained if oracle else None)
        assert isinstance(recipe.init, FixedRule | GammaRule)
        audit = initialize(network, recipe.init, self.seed)
        if isinstance(recipe.pretrain, Stage):
            self.redrawn = redraw(network, recipe.init, self.seed, recipe.pretrain.head)
        return audit

    def _weight(self, name: str) -> Tensor:
        return self.network.get_parameter(name).detach()

    def chosen(self) -> Tensor:
        """Places of the next step's examples in the training set, [B]."""
        recipe, count = self.recipe, len(self.data.train.targets)
        epoch, place = divmod(self.step, recipe.steps_per_epoch)
        if place == 0 or not len(self.order_N):
            self.order_N = order(count, self.seed, "order", epoch).to(self.device)
        return self.order_N[place * recipe.batch : (place + 1) * recipe.batch]

    def batch(self, chosen_B: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs of these training examples, varied as the recipe says, and their targets."""
        train = self.data.train
        inputs = train.inputs.index_select(0, chosen_B)
        return self.vary(inputs), train.targets.index_select(0, chosen_B)

    @property
    def varies(self) -> bool:
        data = self.recipe.data
        return isinstance(data, Images) and bool(data.crop or data.flip)

    def vary(self, inputs: Tensor) -> Tensor:
        """The next step's images, cropped and flipped as the recipe says."""
        data = self.recipe.data
        if not self.varies or not isinstance(data, Images):
            return inputs
        generator = torch.Generator().manual_seed(fold(self.seed, "augment", self.step))
        return augment(inputs, data.crop, data.flip, generator)

    def update(self) -> None:
        """One step of the optimizer."""
        chosen_B = self.chosen()
        inputs, targets = self.batch(chosen_B)
        loss = self.loss(inputs, targets)
        self.losses_T[self.step] = loss.detach()
        if self.recipe.optim.name == "exact":
            assert isinstance(self.network, Diagonal)
            diagonal.settle(self.network, inputs, targets)
        else:
            whole = self.random_labels.added_to(self.penalty.added_to(loss), chosen_B)
            whole.backward()
            self.random_labels.learn(chosen_B)
            self.stepper.step(self.step)
        self.step += 1

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Of the task, without the penalty: the mean over answers."""
        return objective.loss(self.forward(inputs), targets)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [B, C], or [B, T, C] where the network answers T times; or float64 numbers
        [B]."""
        with self.autocast():
            outputs: Tensor = self.network(self.prepared(inputs))
        return outputs if outputs.dtype == torch.float64 else outputs.float()

    def prepared(self, inputs: Tensor) -> Tensor:
        """What the network takes, in the layout that it takes it in."""
        inputs = self.data.prepare(inputs)
        return inputs.contiguous(memory_format=self.format) if inputs.ndim == 4 else inputs

    def autocast(self) -> torch.autocast:
        bf16 = self.recipe.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=bf16)

    @torch.no_grad()
    def measure(self, split: Split) -> Measured:
        self.network.eval()
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        predicted = []
        pairs = zip(
            split.inputs.split(EVALUATION_BATCH),
            split.targets.split(EVALUATION_BATCH),
            strict=True,
        )
        for inputs, targets in pairs:
            outputs = self.forward(inputs)
            loss += objective.total(outputs, targets)
            predicted.append(objective.answers(outputs, targets))
        self.network.train()
        predicted_all = torch.cat(predicted)
        accuracy = objective.accuracy(self.data, predicted_all, split.targets)
        return accuracy, loss.item() / split.targets.numel(), predicted_all

    def evaluated(self, train: Measured, validation: Measured, ood: Measured | None) -> None:
        """What the network now does on train, validation and out-of-distribution data; keep it if
        it is the best by validation accuracy, the earliest on ties."""
        predictor = Predictor(self.step, *train[:2], *validation[:2])
        if ood is not None:
            predictor.ood_accuracy = ood[0]
            if self.data.symmetric is not None:
                predictor.symmetric_accuracy = self.data.accuracy(ood[2] == self.data.symmetric)
        point = predictor.curve_point()
        self.finite = self.first_not_finite() is None and math.isfinite(point["train_loss"])
        if self.finite:
            best = max((p["validation_accuracy"] for p in self.curve), default=-math.inf)
            if point["validation_accuracy"] > best:
                state = self.network.state_dict()
                self.best = {name: value.detach().clone() for name, value in state.items()}
            self.curve.append(point)

    @property
    def probes_now(self) -> bool:
        """Whether it is time to read the recipe's probes."""
        recipe = self.recipe
        interval = recipe.probes.every or recipe.evaluation_interval
        fresh = not self.readings or self.readings[-1]["step"] < self.step
        return self.finite and fresh and (self.step % interval == 0 or self.at_end)

    def probe(self) -> float:
        """Read the recipe's probes, if there are any; training is not touched. Returns the
        seconds it took, which count as training."""
        clock = time.perf_counter()
        self.readings += read(self)
        took = time.perf_counter() - clock
        self.seconds += took
        self.probing += took
        return took

    @property
    def at_end(self) -> bool:
        """Whether this step is the last."""
        return self.step == self.recipe.total_steps or (bool(self.curve) and self.ended)

    @property
    def ended(self) -> bool:
        """Whether there is nothing to train on: diverged, or at the loss or the accuracy to stop
        at."""
        if not self.finite:
            return True
        point, optim = self.curve[-1], self.recipe.optim
        fitted = optim.stop_loss is not None and point["train_loss"] <= optim.stop_loss
        share = optim.stop_validation
        return fitted or (share is not None and point["validation_accuracy"] >= 100 * share)

    def first_not_finite(self) -> int | None:
        """The update, counted from 1, whose batch loss was not finite."""
        wrong = (~self.losses_T[: self.step].isfinite()).nonzero()
        return int(wrong[0]) + 1 if len(wrong) else None

    def outcome(self) -> Outcome:
        """To be called once, at the end: the network becomes the selected one."""
        outcome = self.course()
        weights = {name: self._weight(name).clone() for name in self.start}
        outcome.norms = weight_norms(self.start, weights)
        outcome.final = self._tested(self.curve[-1]) if self.finite else None
        if self.finite and self.recipe.probes.condensation:
            outcome.cosines = packed_cosines(self.network)
        heads = self.recipe.random_labels
        if self.finite and isinstance(heads, Heads) and heads.confidence:
            outcome.confidences = confidences(self)
        if self.best:
            self.network.load_state_dict(self.best)
            best = max(self.curve, key=lambda p: p["validation_accuracy"])
            outcome.selected = self._tested(best)
        return outcome

    def course(self) -> Outcome:
        """What is known without another look at the network."""
        return Outcome(
            steps=self.step,
            total_steps=self.recipe.total_steps,
            steps_per_epoch=self.recipe.steps_per_epoch,
            losses_T=self.losses_T[: self.step].cpu(),
            constant_loss=objective.constant_loss(self.data.train.targets),
            steady=self.recipe.optim.schedule == "constant",
            curve=self.curve,
            readings=self.readings,
            steps_to=self.recipe.steps_to,
            audit=self.audit,
            before=self.before,
            diverged_step=None if self.finite else self.first_not_finite() or self.step,
        )

    def _tested(self, point: dict[str, Any]) -> Predictor:
        accuracy, loss, predicted_N = self.measure(self.data.test)
        predictions = objective.packed(predicted_N)
        return Predictor(
            **point, test_accuracy=accuracy, test_loss=loss, test_predictions=predictions
        )
