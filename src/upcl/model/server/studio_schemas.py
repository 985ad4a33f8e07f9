"""Requests and responses of the page on which people teach; those of the JSON API for answers are in `schemas`."""

from __future__ import annotations

from pydantic import BaseModel, Field

MAX_PHOTOS = 20_000  # in one request
MAX_NAME = 200


class NameRequest(BaseModel):
    """A class.\f

    Attributes:
        name: its name.

    Example:
        >>> NameRequest(name="robin").name
        'robin'
    """

    name: str = Field(min_length=1, max_length=MAX_NAME)


class RenameRequest(NameRequest):
    """A new name for a class.\f

    Attributes:
        new: the new name.

    Example:
        >>> RenameRequest(name="robin", new="European robin").new
        'European robin'
    """

    new: str = Field(min_length=1, max_length=MAX_NAME)


class MergeRequest(NameRequest):
    """Two classes that become one.\f

    Attributes:
        into: the class that gets the photos.

    Example:
        >>> MergeRequest(name="crow", into="raven").into
        'raven'
    """

    into: str = Field(min_length=1, max_length=MAX_NAME)


class PhotosRequest(BaseModel):
    """Photos.\f

    Attributes:
        digests: what identifies them.

    Example:
        >>> PhotosRequest(digests=["0123456789abcdef"]).digests
        ['0123456789abcdef']
    """

    digests: list[str] = Field(min_length=1, max_length=MAX_PHOTOS)


class GroupsRequest(PhotosRequest):
    """Photos to group by similarity.\f

    Attributes:
        num: number of groups; None leaves it to the photos.

    Example:
        >>> GroupsRequest(digests=["0123456789abcdef"]).num is None
        True
    """

    num: int | None = Field(default=None, ge=2, le=50)


class ConfirmRequest(PhotosRequest):
    """A photo whose label is right, or two photos that may both stay although they are alike.\f

    Example:
        >>> ConfirmRequest(digests=["0123456789abcdef"]).digests
        ['0123456789abcdef']
    """

    digests: list[str] = Field(min_length=1, max_length=2)


class LabelRequest(PhotosRequest):
    """What photos show.\f

    Attributes:
        name: their class; None takes their label away.

    Example:
        >>> LabelRequest(digests=["0123456789abcdef"], name="robin").name
        'robin'
    """

    name: str | None = Field(min_length=1, max_length=MAX_NAME)


class StepRequest(BaseModel):
    """A step of the model.\f

    Attributes:
        step: its number.

    Example:
        >>> StepRequest(step=3).step
        3
    """

    step: int = Field(ge=0)
