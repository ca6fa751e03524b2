"""The lane: a pure state machine that agrees with a plain list, whatever is done to it."""

from __future__ import annotations

from random import Random

import pytest

from lochan.base.errors import Bug, Exhausted
from lochan.base.limits.commits import CHAIN_PROPOSALS_MAX, LANE_QUEUE_MAX
from lochan.kernel.lane import Lane


class Model:
    """The same with lists."""

    def __init__(self, queue_max: int, batch_max: int) -> None:
        self.queue_max, self.batch_max = queue_max, batch_max
        self.waiting: list[int] = []
        self.under_way: list[int] = []


def step(random: Random, lane: Lane[int], model: Model, number: int) -> str:
    chosen = random.choice(["offer", "offer", "offer", "take", "join", "settle", "cancel"])
    if chosen == "offer":
        if len(model.waiting) == model.queue_max:
            with pytest.raises(Exhausted, match=str(model.queue_max)):
                lane.offer(number)
            return "full"
        lane.offer(number)
        model.waiting.append(number)
    elif chosen == "take":
        taken = list(lane.take())
        if model.under_way:
            assert taken == []
            return "busy"
        count = model.batch_max
        model.under_way, model.waiting = model.waiting[:count], model.waiting[count:]
        assert taken == model.under_way
    elif chosen == "join":
        if not model.under_way:
            with pytest.raises(Bug):
                lane.take_more()
            return "nothing to join"
        count = model.batch_max - len(model.under_way)
        joined, model.waiting = model.waiting[:count], model.waiting[count:]
        model.under_way += joined
        assert list(lane.take_more()) == joined
    elif chosen == "settle":
        if not model.under_way:
            with pytest.raises(Bug):
                lane.settle()
            return "nothing to settle"
        assert list(lane.settle()) == model.under_way
        model.under_way = []
    else:
        wanted = random.randrange(max(0, number - 12), number + 1)
        assert lane.cancel(wanted) == (wanted in model.waiting)
        if wanted in model.waiting:
            model.waiting.remove(wanted)
            return "cancelled"
    return chosen


@pytest.mark.parametrize("seed", range(20))
def test_a_lane_agrees_with_lists(seed):
    random = Random(seed)
    model = Model(random.choice([1, 3, 8, 20]), random.choice([1, 2, 5, 64]))
    lane: Lane[int] = Lane(model.queue_max, model.batch_max)
    seen = set()
    for number in range(1_000):
        seen.add(step(random, lane, model, number))
        assert lane.first_waiting == (model.waiting[0] if model.waiting else None)
        assert lane.is_idle == (not model.waiting and not model.under_way)
    assert seen >= {"offer", "take", "join", "settle", "cancelled", "busy", "nothing to settle"}


def test_first_in_first_out_in_batches_of_at_most_sixty_four():
    lane: Lane[int] = Lane()
    for number in range(200):
        lane.offer(number)
    batches = []
    while batch := lane.take():
        assert lane.take() == ()
        batches.append(list(batch))
        assert list(lane.settle()) == batches[-1]
    assert [len(batch) for batch in batches] == [CHAIN_PROPOSALS_MAX] * 3 + [200 - 192]
    assert [one for batch in batches for one in batch] == list(range(200))


def test_a_full_lane_says_so_and_forgets_nobody():
    lane: Lane[int] = Lane()
    for number in range(LANE_QUEUE_MAX):
        lane.offer(number)
    with pytest.raises(Exhausted):
        lane.offer(-1)
    assert list(lane.take()) == list(range(CHAIN_PROPOSALS_MAX))
    # Those under way do not count.
    for number in range(CHAIN_PROPOSALS_MAX):
        lane.offer(number)
    with pytest.raises(Exhausted):
        lane.offer(-1)


def test_nobody_is_taken_back_once_it_is_being_published():
    lane: Lane[str] = Lane(batch_max=1)
    lane.offer("a")
    lane.offer("b")
    lane.take()
    assert not lane.cancel("a")
    assert lane.cancel("b")
    assert not lane.cancel("b")
    lane.settle()
    assert lane.is_idle
    assert not lane.cancel("a")
