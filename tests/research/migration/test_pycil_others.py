from __future__ import annotations

from upcl.methods.registry import METHODS
from upcl.research.migration.pycil import MODELS
from upcl.research.migration.pycil_others import OTHER_MODELS


def test_these_models_have_no_method_of_their_name_here() -> None:
    """A method that is added under such a name needs settings in the table of PyCIL."""
    for name, model in OTHER_MODELS.items():
        assert MODELS[name] is model
        assert not model.method
        assert not model.settings
        assert name not in METHODS
