"""A request as the words of an `upcl train` command."""

from __future__ import annotations

from typing import Any

from upcl.research.config import Request

OPTIONS = (
    *("tasks", "memory", "backbone", "frozen"),
    *("order", "order_seed", "seed"),
    *("epochs", "recipe", "protocol", "select", "longtail"),
)
"""Fields of a request in the order in which they are written."""


def setting_text(value: Any) -> str:
    """Write a value as `--set` reads it: a list as numbers with commas, in brackets if these would be missing.

    Args:
        value: the value.

    Example:
        >>> setting_text([80, 120]), setting_text((18,)), setting_text(True), setting_text(5e-4)
        ('80,120', '[18]', 'true', '0.0005')
    """
    if isinstance(value, list | tuple):
        text = ",".join(map(str, value))
        return text if len(value) > 1 else f"[{text}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def command_words(request: Request, device: str = "auto") -> list[str]:
    """Compose the command that makes a request.

    Args:
        request: the request, of a method and a data set by name.
        device: where to train.

    Example:
        >>> " ".join(command_words(Request(method="icarl", data="cifar100", tasks=10, seed=1)))
        'upcl train icarl --data cifar100 --tasks 10 --order-seed 1993 --seed 1'
    """
    words = ["upcl", "train", request.method_name, "--data", str(request.data)]
    for name in OPTIONS:
        value = getattr(request, name)
        if value is None or value is False or (name == "order_seed" and request.order):
            continue
        if value == request.__dataclass_fields__[name].default and name not in ("order_seed", "seed"):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(map(str, value)) if isinstance(value, tuple) else str(value))
    if device != "auto":
        words += ["--device", device]
    for name, value in request.options.items():
        words += ["--set", f"{name}={setting_text(value)}"]
    return words
