"""The keys that belong to a model, and the values that its module sets itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from upcl.core.errors import UserError
from upcl.core.options import check_values, fields_of
from upcl.core.recipes import Recipe, override_recipes, split_recipe_options
from upcl.methods.registry import MethodClass, find_method

from .command import setting_text
from .draft import Draft, Verdict

PARTS = {"first": ("first",), "later": ("later",), "recipe": ("first", "later")}


def judge_model(draft: Draft) -> None:
    """Judge the keys that become options of the method here, or of its recipes.

    Args:
        draft: the translation, which is filled in.

    Raises:
        UserError: if a value makes no sense.

    Example:
        >>> from upcl.research.migration.pycil import MODELS, PYCIL
        >>> draft = Draft({"model_name": "lwf", "T": 4}, PYCIL, MODELS["lwf"], "lwf")
        >>> judge_model(draft)
        >>> draft.options, [verdict.kind for verdict in all_verdicts(draft)]
        ({}, ['ignored', 'ignored'])
    """
    if not draft.method:
        return
    method = find_method(draft.method)
    for key, setting in draft.model.settings.items():
        _judge_setting(draft, method, key, setting)
    for name, value in draft.model.implied.items():
        differs, text = _apply(draft, method, {name: value})
        if differs:
            draft.hard_coded.append(Verdict(name, value, "hard-coded", text))
    _judge_built_in(draft)
    _merge_recipes(draft)


def all_verdicts(draft: Draft) -> Iterator[Verdict]:
    """Verdicts on all keys in the order of the file; on the inner keys, where values hold keys themselves.

    Args:
        draft: the translation, in which everything is judged that becomes something here.

    Example:
        >>> from upcl.research.migration.pycil import MODELS, PYCIL
        >>> draft = Draft({"new": {"size": 3}}, PYCIL, MODELS["lwf"], "lwf")
        >>> next(all_verdicts(draft)).key
        'new.size'
    """
    for key, value in draft.content.items():
        if key in draft.verdicts:
            yield draft.verdicts[key]
        else:
            yield from (_last_verdict(draft, path, leaf) for path, leaf in _leaves(key, value))


def _judge_setting(draft: Draft, method: MethodClass, key: str, setting: str) -> None:
    model, content = draft.model, draft.content
    is_given = key in content and key not in model.constants
    known = {**model.defaults, **content, **model.constants}
    if key not in known:
        return
    value = known[key]
    if value is None:
        draft.judge(key, "no equivalent", "null leaves the value to the program")
        return
    converted = _convert(draft, method, key, setting, known)
    pairs = converted if setting == "*" else {setting: converted}
    differs, text = _apply(draft, method, pairs)
    try:
        _check(method, pairs)
    except UserError as error:
        raise UserError(f"'{key}': {value!r} does not fit: {error}") from None
    if is_given:
        has_option = not text.startswith("no option")
        draft.judge(key, "becomes" if has_option else "no equivalent", text)
    elif differs:
        draft.hard_coded.append(Verdict(key, value, "hard-coded", text))


def _convert(draft: Draft, method: MethodClass, key: str, setting: str, known: Mapping[str, Any]) -> Any:
    """The value of an option here, from the values that the program knows."""
    model, value = draft.model, known[key]
    try:
        if key in model.relative:
            value = _share(value / known[model.relative[key]], method, setting)
        return model.convert[key](value) if key in model.convert else value
    except KeyError as error:
        raise UserError(f"'{key}' is given, but not {error}, on which it depends") from None
    except (TypeError, ValueError, ArithmeticError):
        raise UserError(f"'{key}' must be a number or a word that {draft.program.title} knows, not {value!r}") from None


def _share(share: float, method: MethodClass, setting: str) -> float:
    """A share without the noise of a division: the default, if it is that, or six digits."""
    return next((each for each in _defaults(method, setting) if math.isclose(each, share)), float(f"{share:.6g}"))


def _check(method: MethodClass, pairs: Mapping[str, Any]) -> None:
    """Refuse values that options do not accept."""
    parts = split_recipe_options({name: value for name, value in pairs.items() if list(_defaults(method, name))})
    check_values(method, parts["method"], f"option of {method.name}")
    override_recipes(method.recipes, None, parts)


def _apply(draft: Draft, method: MethodClass, pairs: dict[str, Any]) -> tuple[bool, str]:
    """Set options that differ from their defaults; return whether any does, and what to say about them."""
    differs, texts = False, []
    for name, given in pairs.items():
        value = tuple(given) if isinstance(given, list) else given
        defaults = list(_defaults(method, name))
        if not defaults:
            return True, f"no option of {method.title} here"
        draft.options.pop(name, None)  # a later key overrides an earlier one
        if any(default != value for default in defaults):
            draft.options[name] = value
            differs = True
            here = " and ".join(setting_text(round(each, 4) if isinstance(each, float) else each) for each in defaults)
            texts.append(f"--set {name}={setting_text(value)} (here {here})")
        else:
            texts.append(f"{name}={setting_text(value)}, as here")
    return differs, "; ".join(texts) or "nothing: the default here"


def _defaults(method: MethodClass, name: str) -> Iterator[Any]:
    """The values that an option has if it is not set: one, two for both recipes, none if there is no such option."""
    part, dot, recipe_field = name.partition(".")
    if dot:
        found = dict.fromkeys(getattr(getattr(method.recipes, each), recipe_field) for each in PARTS[part])
        yield from found
    elif name in fields_of(method):
        yield getattr(method(), name)


def _judge_built_in(draft: Draft) -> None:
    for key, known in draft.model.built_in.items():
        value = draft.content.get(key, known.default)
        text = f"here always {setting_text(known.here)}: {known.meaning}"
        if value == known.here:
            draft.judge(key, "built in", f"{known.meaning}: always so here")
        elif key in draft.content:
            draft.judge(key, "no equivalent", text)
        else:
            draft.hard_coded.append(Verdict(key, value, "hard-coded", f"taken since the file has none: {text}"))


def _merge_recipes(draft: Draft) -> None:
    """Write a field that both recipes share once."""
    for name in Recipe.__dataclass_fields__:
        first, later = (draft.options.get(f"{part}.{name}") for part in ("first", "later"))
        if first is not None and first == later:
            del draft.options[f"first.{name}"], draft.options[f"later.{name}"]
            draft.options[f"recipe.{name}"] = first


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    else:
        yield path, value


def _last_verdict(draft: Draft, path: str, value: Any) -> Verdict:
    """The verdict on a key that is neither general nor an option here."""
    model, program = draft.model, draft.program
    *outer, key = path.split(".")
    if any(each in program.sources and each != draft.content.get("dataset") for each in outer):
        return Verdict(path, value, "ignored", "for another data set")
    if key in model.absent:
        return Verdict(path, value, "no equivalent", model.absent[key])
    if key in model.unused:
        return Verdict(path, value, "ignored", model.unused[key])
    if key in model.constants:
        return Verdict(path, value, "ignored", f"{model.file} sets it itself: {setting_text(model.constants[key])}")
    if model.reads_key(key) or key in program.network_keys(draft.content):
        what = f"an option of {model.title}" + ("" if draft.method else ", which is not here")
        return Verdict(path, value, "no equivalent", what)
    return Verdict(path, value, "ignored", f"{program.title} does not read it for {model.title}")
