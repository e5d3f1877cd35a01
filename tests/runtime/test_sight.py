"""Why a box is stale is said in few words, once."""

from __future__ import annotations

from paddock.fs.tree import Altered
from paddock.runtime.sight import Sight


def test_a_box_that_saw_everything_is_not_stale() -> None:
    assert Sight().take() == ""


def test_the_words_name_who_and_where_and_are_said_once() -> None:
    sight = Sight()
    sight.touched("changes were applied (one)", ["b", "a"], more=False)
    sight.notice(Altered(paths=("src/x", "src/y", "src/z", "src/zz")))
    assert sight.take() == (
        "changes were applied (one) to a, b; the workspace changed on the host at src/x, src/y, src/z and 1 more"
    )
    assert sight.take() == ""


def test_what_an_apply_of_ours_changed_is_not_told_a_second_time() -> None:
    sight = Sight()
    sight.notice(Altered(paths=("dir/file", "dir", ".", "mine")))
    sight.touched("changes were applied (one)", ["dir/file", "top"], more=False)
    assert sight.take() == "changes were applied (one) to dir/file, top; the workspace changed on the host at mine"


def test_an_apply_of_many_is_not_taken_for_the_hosts() -> None:
    sight = Sight()
    sight.touched("changes were applied (one)", [str(number) for number in range(256)], more=True)
    sight.notice(Altered(paths=("7",), more=True))
    assert sight.take() == "changes were applied (one) to 0, 1, 10 and more"


def test_a_change_that_is_not_known_better_is_told_all_the_same() -> None:
    sight = Sight()
    sight.notice(Altered(more=True))
    assert sight.take() == "the workspace changed on the host"


def test_a_sight_does_not_grow_without_bound() -> None:
    sight = Sight()
    for number in range(5000):
        sight.touched(f"changes were applied ({number})", [f"a{number}"], more=False)
        sight.notice(Altered(paths=(f"b{number}",)))
    assert max(len(sight.reasons), len(sight.altered), len(sight.ours)) <= 1024
