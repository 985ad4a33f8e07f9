"""A method of your own: exemplars, cross-entropy, and a penalty on changes of the features.

upcl train examples/own_method.py:FeatureDistillation --data digits
python examples/own_method.py
"""

from dataclasses import dataclass

import torch.nn.functional as F

import upcl
from upcl import Batch, LinearMethod, Losses, Recipe, Recipes, option


@dataclass(kw_only=True, eq=False)
class FeatureDistillation(LinearMethod):
    """Replay with feature distillation: `L = CE(z, y) + strength * mean (f - f_old)^2`."""

    name = "feature-distillation"
    title = "Feature distillation"
    paper = "none: an example"
    summary = "replays exemplars and keeps features close to the teacher's"
    recipes = Recipes(
        first=Recipe(epochs=200, milestones=(60, 120, 170)), later=Recipe(epochs=170, milestones=(80, 120))
    )

    strength: float = option(1.0, "weight of the feature distillation")

    def losses(self, batch: Batch) -> Losses:
        features = self.net.features(batch.inputs)
        losses = {"ce": F.cross_entropy(self.net.classify(features), batch.labels)}
        if self.teacher:
            losses["feature"] = self.strength * F.mse_loss(features, self.teacher.features(batch.inputs))
        return losses


if __name__ == "__main__":
    record = upcl.run(upcl.Request(method=FeatureDistillation, data="digits", options={"strength": 2.0}))
    print(f"A_last: head {record.a_last.head:.1f} %, nearest mean {record.a_last.nme:.1f} %")
