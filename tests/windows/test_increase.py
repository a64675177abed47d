"""Adding increases up: order does not matter, nothing is lost, different edges meet on the shared ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.windows.increase import HistogramIncrease, Increase, merged, regroup

EDGES = (1.0, 2.0, 5.0, 10.0)
counts = st.lists(st.integers(0, 10_000).map(float), min_size=5, max_size=5)


def histogram(values: list[float]) -> HistogramIncrease:
    return HistogramIncrease(EDGES, list(values), total=float(sum(values)))


@given(st.lists(counts, min_size=1, max_size=6))
def test_merging_does_not_depend_on_the_order(many: list[list[float]]) -> None:
    bags = [Increase({("a", ""): values[0]}, {"ttft": histogram(values)}) for values in many]
    there, back = merged(bags), merged(reversed(bags))
    assert there.counters == back.counters
    assert there.histograms["ttft"].counts == back.histograms["ttft"].counts


@given(counts, st.sets(st.sampled_from(EDGES)))
def test_regrouping_keeps_every_cumulative_count_at_the_edges_that_stay(values: list[float], kept: set[float]) -> None:
    coarser = tuple(sorted(kept))
    grouped = regroup(values, EDGES, coarser)
    assert sum(grouped) == sum(values)
    for index, edge in enumerate(coarser):
        assert sum(grouped[: index + 1]) == sum(values[: EDGES.index(edge) + 1])


def test_layouts_with_different_edges_merge_on_the_shared_ones() -> None:
    one = HistogramIncrease((0.01, 0.025, 0.05), [1, 2, 3, 4], total=1.0)
    other = HistogramIncrease((0.01, 0.02, 0.05), [10, 20, 30, 40], total=2.0)
    one.add(other)
    assert one.edges == (0.01, 0.05)
    assert one.counts == [11, 55, 44]
    assert one.mixed
    assert one.total == 3.0


def test_a_mean_leaves_out_observations_without_a_trustworthy_sum() -> None:
    assert HistogramIncrease((1.0,), [4.0, 0.0], total=3.0, unsummed=1.0).mean == 1.0
    assert HistogramIncrease((1.0,), [1.0, 0.0], total=0.0, unsummed=1.0).mean is None


def test_merging_never_changes_its_parts() -> None:
    part = Increase({("a", ""): 1.0}, {"ttft": histogram([1.0, 0, 0, 0, 0])})
    total = merged([part, part])
    assert total.histograms["ttft"].count == 2
    assert part.histograms["ttft"].count == 1
