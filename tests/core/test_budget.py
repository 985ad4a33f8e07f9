from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upcl.core.budget import Budget, divide_budget, parse_bytes
from upcl.core.errors import UserError


@given(st.integers(0, 200), st.lists(st.integers(0, 30), max_size=12))
def test_sharing_is_exact_and_even(total: int, available: list[int]) -> None:
    quotas = divide_budget(total, available)
    assert sum(quotas) == min(total, sum(available)), "nothing is lost and nothing exceeded"
    assert all(0 <= quota <= images for quota, images in zip(quotas, available, strict=True))
    unsated = [quota for quota, images in zip(quotas, available, strict=True) if quota < images]
    if unsated:
        assert max(unsated) - min(unsated) <= 1
        assert max(quotas) <= max(unsated) + 1


@pytest.mark.parametrize(
    ("total", "classes", "each"),
    [(2000, 15, 133), (2000, 30, 66), (2000, 70, 28), (500, 30, 16), (500, 90, 5), (500, 200, 2)],
)
def test_floor_sharing_of_the_specification(total: int, classes: int, each: int) -> None:
    assert Budget(total, "images", "floor").quotas([500] * classes, 1) == [each] * classes
    exact = Budget(total).quotas([500] * classes, 1)
    assert sum(exact) == total
    assert set(exact) == {each, each + 1}, "no class has less than the floor or more than the ceiling"


def test_budgets_are_parsed_in_all_units() -> None:
    assert Budget.parse("2000") == Budget(2000, "images")
    assert Budget.parse("20/class").quotas([50, 7], 1) == [20, 7]
    assert Budget.parse("50MB").capacity(10, 3072) == 50_000_000 // 3072
    assert Budget.parse("1KiB").capacity(10, 64) == 16
    for wrong in ("many", "-3", "20/task", "5TB", "", "9" * 5000, "20-total", "20/class-total", "5MB-all"):
        with pytest.raises(UserError, match="use a number of images"):
            Budget.parse(wrong)


@given(st.integers(0, 60), st.lists(st.integers(0, 12), max_size=6))
def test_sharing_equals_dealing_images_out_one_by_one(total: int, available: list[int]) -> None:
    assert divide_budget(total, available) == dealt_out(total, available)


def dealt_out(total: int, available: list[int]) -> list[int]:
    """One image to each class in turn, as long as there are slots and images left."""
    quotas = [0] * len(available)
    while total and quotas != available:
        for k, images in enumerate(available):
            if total and quotas[k] < images:
                quotas[k] += 1
                total -= 1
    return quotas


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 10**4), st.integers(1, 50))
def test_network_and_exemplars_fill_a_total_budget_and_never_exceed_it(
    amount: int, network: int, image: int, classes: int
) -> None:
    budget = Budget(amount, "total bytes")
    total = budget.capacity(classes, image, network)
    if network + image <= amount:
        assert network + total * image <= amount < network + (total + 1) * image
    else:
        assert total == 0
    assert sum(budget.quotas([10**7] * classes, image, network)) == total


def test_a_total_budget_is_that_of_603_exemplars_and_a_network() -> None:
    """The example of Zhou et al.: a ResNet-32 takes as many bytes as 603 images of CIFAR-100."""
    resnet = 463_504 * 4
    assert Budget.parse(f"{2 * resnet}B-total").capacity(100, 3072, resnet) == 603
    assert Budget.parse("20mb-TOTAL") == Budget(20_000_000, "total bytes")


def test_other_budgets_do_not_count_the_network() -> None:
    for text in ("2000", "20/class", "50MB"):
        budget = Budget.parse(text)
        assert budget.capacity(10, 3072, 10**9) == budget.capacity(10, 3072)


def test_sizes_are_parsed_with_their_units() -> None:
    assert [parse_bytes(text, "x") for text in ("20MB", "1 KiB", "7b", "2gb")] == [20_000_000, 1024, 7, 2_000_000_000]
    for wrong in ("", "20", "MB", "-1MB", "0MB", "20MB-total"):
        with pytest.raises(UserError, match="use a number of bytes above zero"):
            parse_bytes(wrong, "--budget")
