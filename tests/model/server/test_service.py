from __future__ import annotations

import io
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from upcl.model.learner import Learner
from upcl.model.predictor import Predictor
from upcl.model.server.limits import DECODING, MAX_CONCURRENT
from upcl.model.server.schemas import ImageResponse
from upcl.model.server.service import Service, Upload


def test_a_limited_number_of_requests_is_processed_at_once(learner: Learner, photo: bytes) -> None:
    service = Service(learner)
    inside, most = [0], [0]
    predict = service._predict

    def slow(uploads: Sequence[Upload], top: int) -> list[ImageResponse]:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.05)
        inside[0] -= 1
        return predict(uploads, top)

    service._predict = slow  # type: ignore[method-assign]
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: service.predict([Upload("a.png", io.BytesIO(photo))], 1), range(8)))
    assert all(len(response) == 1 and response[0].name for response in responses)
    assert most[0] == MAX_CONCURRENT


def test_images_are_decoded_one_at_a_time_for_each_request(
    learner: Learner, photo: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, decode = Service(learner), Predictor._decode
    inside, most = [0], [0]

    def slow(*arguments: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return decode(*arguments)

    monkeypatch.setattr(Predictor, "_decode", slow)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(service.predict, [Upload("a.png", io.BytesIO(photo)) for _ in range(4)], 1)
    assert 1 <= most[0] <= MAX_CONCURRENT


def test_files_are_not_read_before_it_is_their_turn(learner: Learner, photo: bytes) -> None:
    upload = Upload("a.png", io.BytesIO(photo))
    with ExitStack() as slots, ThreadPoolExecutor(1) as pool:
        for _ in range(MAX_CONCURRENT):
            slots.enter_context(DECODING)
        answer = pool.submit(Service(learner).predict, [upload], 1)
        time.sleep(0.05)
        assert upload.file.tell() == 0
        slots.close()
        assert answer.result()[0].name


def test_nearest_exemplars_belong_to_their_classes(learner: Learner, photo: bytes) -> None:
    (response,) = Service(learner).predict([Upload("a.png", io.BytesIO(photo))], 2)
    nearness = [exemplar.nearness for exemplar in response.nearest]
    assert nearness == sorted(nearness, reverse=True) and len(nearness) == 3
    assert {exemplar.name for exemplar in response.nearest} <= set(learner.classes)
    assert len(response.top) == 2
