"""What the page shows: the model at first sight, and one photo."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from upcl.model.card import accuracy_interval

from .teacher import Teacher

NUM_NEAREST = 6
NUM_PICTURES = 4  # of a class


def describe(teacher: Teacher) -> dict[str, Any]:
    """What the page shows at first sight.

    Args:
        teacher: the model and its photos.

    Example:
        >>> describe(teacher)["classes"]  # doctest: +SKIP
        []
    """
    version, bundle = teacher.version, teacher.bundle
    state = bundle.state if bundle else None
    entry = bundle.history[-1] if bundle else None
    classes = [
        {
            "name": name,
            "learned": len(state.trained.get(name, ())),
            "held_out": len(state.tested.get(name, ())),
            "accuracy": entry.by_class.get(name),
            "pictures": (*state.trained.get(name, ()), *state.tested.get(name, ()))[:NUM_PICTURES],
        }
        for name in (state.class_names if state else [])
        if state and entry
    ]
    classes += [
        {"name": name, "learned": 0, "held_out": 0, "accuracy": None, "pictures": ()}
        for name in teacher.workspace.planned_classes
    ]
    accuracy = None
    num = len(state.held_out) if state else 0
    if entry and num and entry.best_accuracy is not None:
        low, high = accuracy_interval(entry.best_accuracy, num)
        none = 100 * state.calibration.false_alarm_rate if state else 0.0
        accuracy = {"percent": entry.best_accuracy, "low": low, "high": high, "photos": num, "none": none}
    return {
        "version": version,
        "model": teacher.learner.path.name,
        "classes": classes,
        "unlabelled": len(teacher.unlabelled()),
        "accuracy": accuracy,
        "undo": {"step": len(bundle.history) - 1, "note": bundle.history[-1].note}
        if bundle and teacher.can_undo()
        else None,
        "history": [
            {
                "step": step,
                "when": found.when,
                "note": found.note,
                "accuracy": found.best_accuracy,
                "stored": step in bundle.states,
            }
            for step, found in enumerate(bundle.history)
        ]
        if bundle
        else [],
    }


def describe_photo(teacher: Teacher, digest: str) -> dict[str, Any]:
    """What the model sees in a photo, and the labelled photos that resemble it most.

    Args:
        teacher: the model and its photos.
        digest: the photo.

    Example:
        >>> describe_photo(teacher, "0123456789abcdef")["top"][0]["name"]  # doctest: +SKIP
        'robin'
    """
    labels, stored = teacher.labels(), teacher.workspace.photos.get(digest)
    features = teacher.features([digest])
    predictions = teacher.predict([digest])
    label, held_out = labels.get(digest, (None, False))
    found: dict[str, Any] = {"digest": digest, "file": stored.file if stored else "", "label": label}
    found |= {"held_out": held_out, "stored": stored is not None, "answer": None, "top": [], "nearest": []}
    if predictions is None:
        return found
    top = predictions.top(5)[0]
    others = [other for other in labels if other != digest]
    if others:
        cosines = F.cosine_similarity(teacher.features(others).float(), features.float())
        best = cosines.topk(min(NUM_NEAREST, len(others)))
        found["nearest"] = [
            {"digest": others[row], "name": labels[others[row]][0], "nearness": round(cosine, 3)}
            for cosine, row in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]
    ranked = zip(top.names, top.confidence, strict=True)
    return found | {
        "answer": top.name,
        "top": [{"name": name, "confidence": round(sure, 4)} for name, sure in ranked],
    }
