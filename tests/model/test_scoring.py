from __future__ import annotations

import torch

from tests.model.known_method import known_method, known_state, samples
from upcl.model.calibration import Calibration
from upcl.model.scoring import Scoring

FEATURES = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
NOTHING = samples([], [])


def scoring(**changes: object) -> Scoring:
    method, state = known_method((1, 2, 0)), known_state(NOTHING, **changes)  # type: ignore[arg-type]
    return Scoring(method, state, method.extract(state.exemplars))


def test_both_readings_and_familiarity_by_hand() -> None:
    found = scoring()(FEATURES)
    assert torch.allclose(found.head, torch.tensor([[4.0, 0.0, 3.0], [0.0, 2.0, 0.0]]))
    assert torch.allclose(found.nme, torch.tensor([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]]))
    assert torch.allclose(found.familiarity, torch.tensor([0.8, 1.0]))


def test_confidence_is_the_softmax_of_the_chosen_reading_over_the_temperature() -> None:
    calibration = Calibration(temperature=2.0, threshold=0.0, false_alarm_rate=0.0, num_images=1)
    for reading in ("head", "nme"):
        found = scoring(reading=reading, calibration=calibration)(FEATURES)
        expected = (getattr(found, reading).double() / 2).exp()
        assert torch.allclose(found.confidence, expected / expected.sum(1, keepdim=True))
        assert found.confidence.dtype == torch.float64


def test_removed_classes_are_never_predicted() -> None:
    found = scoring(classes=("cat", None, "owl"))(FEATURES)
    assert found.head[:, 1].tolist() == found.nme[:, 1].tolist() == [-torch.inf] * 2
    assert found.confidence[:, 1].tolist() == [0.0] * 2
    assert torch.allclose(found.familiarity, torch.tensor([0.6, 1.0])), "nor are they familiar"


def test_classes_without_exemplars_have_the_smallest_cosine() -> None:
    found = scoring(exemplars=samples([(9, 0, 0)], [0]))(FEATURES)
    assert torch.allclose(found.nme, torch.tensor([[0.6, -1.0, -1.0], [0.0, -1.0, -1.0]]))
    assert torch.allclose(found.familiarity, torch.tensor([0.6, 0.0]))
    assert scoring(exemplars=NOTHING)(FEATURES).familiarity.tolist() == [-1.0, -1.0]
