from __future__ import annotations

import pytest

from upcl.research.config import Request
from upcl.research.migration.command import command_words, setting_text


@pytest.mark.parametrize(
    ("value", "text"),
    [([60, 120], "60,120"), ((18,), "[18]"), ([], "[]"), (True, "true"), (0.1, "0.1"), ("full", "full"), (2, "2")],
)
def test_values_of_set(value: object, text: str) -> None:
    assert setting_text(value) == text


def test_all_options_are_written() -> None:
    request = Request(
        method="icarl",
        data="cifar100",
        tasks=(50, 25, 25),
        memory="20/class",
        backbone="resnet32",
        frozen=True,
        order_seed=3,
        seed=0,
        epochs=2,
        recipe="own",
        protocol="paper",
        select="last",
        longtail="exp:0.01",
        options={"recipe.lr": 0.2},
    )
    words = " ".join(command_words(request, "cpu"))
    assert words == (
        "upcl train icarl --data cifar100 --tasks 50,25,25 --memory 20/class --backbone resnet32 --frozen "
        "--order-seed 3 --seed 0 --epochs 2 --recipe own --protocol paper --select last "
        "--longtail exp:0.01 --device cpu --set recipe.lr=0.2"
    )


def test_a_given_order_leaves_no_seed_of_the_order() -> None:
    words = command_words(Request(method="icarl", data="digits", order=("1", "0")))
    assert words == ["upcl", "train", "icarl", "--data", "digits", "--order", "1,0", "--seed", "0"]
