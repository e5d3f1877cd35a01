"""Review mode from end to end, over overlays of the kernel: WS-14, WS-16 and the issue's promises."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import kernel
from paddock.errors import UserError
from paddock.workspace import state
from paddock.workspace.plan import Why
from paddock.workspace.review import Result, Review
from tests.workspace.worlds import World, tree, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.box


@pytest.fixture
def review(world: World) -> Iterator[Review]:
    with Review(os.fspath(world.base), os.fspath(world.upper), os.fspath(world.state)) as review:
        yield review


def settle(review: Review) -> None:
    """The overlay is mounted a little after the last edit of the host: within one tick of the clock all is doubt."""
    state.await_tick()
    review.opened()


def apply(review: Review, *paths: str) -> Result:
    found = review.changes()
    plan = review.plan(paths or ("",), accepted=[change.path for change in found.items])
    assert not [held for held in plan.withheld if held.why is not Why.REFUSED]
    return review.apply(plan)


def writing(files: dict[str, str]) -> Callable[[], None]:
    def act() -> None:
        for path, text in files.items():
            write(path, text)

    return act


def both(*acts: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        for one in acts:
            one()

    return act


def rework() -> None:
    """Every kind of change at once."""
    write("top", "TOP\n")
    os.chmod("notes.txt", 0o755)
    shutil.rmtree("old")
    write("old/new", "new\n")
    write("old/x", "other\n")
    os.unlink("src/b.py")
    os.symlink("a.py", "src/link")
    shutil.rmtree("src/deep")
    write("src/deep", "a file now\n")
    os.unlink("src/a.py")
    write("src/a.py/inner", "a directory now\n")
    os.mkdir("empty")
    os.mkdir("closed")
    write("closed/in", "in\n")
    os.chmod("closed", 0o555)
    write("line\nbreak \udcff/\x1b[2J", "odd\n")


ACTS: list[Callable[[], None]] = [
    rework,
    lambda: write("top", "TOP\n"),
    lambda: os.chmod("top", 0o600),
    lambda: os.chmod("src", 0o700),
    lambda: os.unlink("top"),
    lambda: shutil.rmtree("old"),
    lambda: write("n/m/o", "x"),
    lambda: os.mkdir("empty"),
    lambda: os.rename("notes.txt", "src/moved"),
    lambda: os.symlink("top", "link"),
    both(lambda: os.unlink("top"), lambda: os.symlink("src", "top")),
    both(lambda: os.unlink("top"), lambda: os.mkdir("top")),
    both(lambda: shutil.rmtree("old"), lambda: os.makedirs("old/y")),
    both(lambda: shutil.rmtree("src"), lambda: os.symlink("old", "src")),
    both(lambda: write("one", "1"), lambda: os.link("one", "two")),
]


@pytest.mark.parametrize("act", ACTS)
def test_after_an_apply_the_host_has_what_the_box_has_and_nothing_is_left_to_review(
    world: World, review: Review, act: Callable[[], None]
) -> None:
    settle(review)
    world.box(act)
    wanted = world.view()
    result = apply(review)
    assert [done for done in result.done if done.error] == []
    assert tree(world.base) == wanted
    assert world.view() == wanted
    assert review.changes().items == ()
    assert os.listdir(world.upper) == []


@pytest.mark.parametrize("act", ACTS)
def test_an_undo_gives_the_host_its_files_back_and_the_box_its_changes(
    world: World, review: Review, act: Callable[[], None]
) -> None:
    before = tree(world.base)
    settle(review)
    world.box(act)
    seen = world.view()
    told = [(change.path, change.kind) for change in review.changes().items]
    apply(review)
    result = review.undo()
    assert [done for done in result.done if done.error] == []
    assert tree(world.base) == before
    assert world.view() == seen
    assert [(change.path, change.kind) for change in review.changes().items] == told


@pytest.mark.parametrize("act", ACTS)
def test_what_was_undone_can_be_applied_again(world: World, review: Review, act: Callable[[], None]) -> None:
    settle(review)
    world.box(act)
    wanted = world.view()
    apply(review)
    review.undo()
    review.opened()
    apply(review)
    assert tree(world.base) == wanted


@pytest.mark.parametrize("act", ACTS)
def test_a_discard_of_everything_leaves_the_box_with_what_the_host_has(
    world: World, review: Review, act: Callable[[], None]
) -> None:
    world.box(act)
    review.discard()
    assert review.changes().items == ()
    assert world.view() == tree(world.base)


def test_each_change_can_be_discarded_alone(world: World, review: Review) -> None:
    before = tree(world.base)
    world.box(rework)
    for path in ("old/y", "top", "src/b.py", "old/new", "old/x", "src/deep", "src/a.py", "src/link"):
        review.discard([path])
        view = world.view()
        assert {place: view.get(place) for place in before if place.startswith(path)} == {
            place: text for place, text in before.items() if place.startswith(path)
        }
    assert not [change.path for change in review.changes().items if change.path.startswith(("old", "src", "top"))]


def test_a_deletion_inside_a_deleted_directory_can_be_discarded_alone(world: World, review: Review) -> None:
    world.box(lambda: shutil.rmtree("old"))
    review.discard(["old/y/z"])
    view = world.view()
    assert view["old/y/z"] == "zed\n"
    assert "old/x" not in view


def test_only_the_chosen_path_comes_home(world: World, review: Review) -> None:
    settle(review)
    world.box(rework)
    seen = world.view()
    before = tree(world.base)
    apply(review, "old/new")
    assert tree(world.base) == {**before, "old/new": "new\n"}
    assert world.view() == seen
    apply(review, "old")
    assert world.view() == seen
    assert {path for path in tree(world.base) if path.startswith("old")} == {"old", "old/new", "old/x"}


def test_the_directories_around_a_chosen_file_come_with_it(world: World, review: Review) -> None:
    settle(review)
    world.box(writing({"n/m/o": "x", "n/p": "y"}))
    apply(review, "n/m/o")
    assert {path for path in tree(world.base) if path.startswith("n/")} == {"n/m", "n/m/o"}
    assert [change.path for change in review.changes().items] == ["n/p"]


def test_a_path_the_box_did_not_change_is_an_error(world: World, review: Review) -> None:
    settle(review)
    with pytest.raises(UserError, match="changed nothing at 'top'"):
        review.plan(["top"])


# -- conflicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        lambda base: (base / "top").write_text("HOST\n", "utf-8"),
        lambda base: (base / "top").write_text("top\n", "utf-8"),  # the same text, but who knows what the box saw
        lambda base: (base / "top").chmod(0o600),
        lambda base: ((base / "n").write_text("top\n", "utf-8"), (base / "n").rename(base / "top")),
    ],
)
def test_a_file_that_the_host_changed_is_a_conflict_and_others_go_on(
    world: World, review: Review, edit: Callable[[Path], object]
) -> None:
    settle(review)
    world.box(writing({"top": "BOX\n", "src/a.py": "box\n"}))
    edit(world.base)
    before = tree(world.base)
    plan = review.plan()
    assert [(held.path, held.why) for held in plan.withheld] == [("top", Why.CONFLICT)]
    review.apply(plan)
    assert tree(world.base) == {**before, "src/a.py": "box\n"}
    assert world.view()["top"] == "BOX\n"


@pytest.mark.parametrize(
    ("act", "path", "edit"),
    [
        (lambda: write("new", "BOX\n"), "new", lambda base: (base / "new").write_text("HOST\n", "utf-8")),
        (lambda: write("top", "BOX\n"), "top", lambda base: (base / "top").write_text("HOST\n", "utf-8")),
        (lambda: write("top", "BOX\n"), "top", lambda base: (base / "top").unlink()),
        (lambda: os.unlink("top"), "top", lambda base: (base / "top").write_text("HOST\n", "utf-8")),
        (lambda: os.chmod("top", 0o600), "top", lambda base: (base / "top").chmod(0o640)),
        (lambda: shutil.rmtree("old"), "old", lambda base: (base / "old/host").touch()),
        (lambda: os.symlink("top", "link"), "link", lambda base: (base / "link").symlink_to("HOST")),
        (lambda: os.mkdir("dir"), "dir", lambda base: (base / "dir").write_text("HOST\n", "utf-8")),
    ],
)
def test_an_edit_of_the_host_between_plan_and_apply_is_never_overwritten(
    world: World, review: Review, act: Callable[[], None], path: str, edit: Callable[[Path], object]
) -> None:
    settle(review)
    world.box(act)
    plan = review.plan(accepted=[change.path for change in review.changes().items])
    edit(world.base)
    edited = tree(world.base)
    result = review.apply(plan)
    assert [done.path for done in result.conflicts] == [path]
    kept = {place: text for place, text in edited.items() if place in {path, "old/host"}}
    assert {place: tree(world.base).get(place) for place in kept} == kept
    assert not [name for name in os.listdir(world.base) if name.startswith(".paddock")]


def test_an_edit_of_the_box_between_plan_and_apply_does_not_come_home(world: World, review: Review) -> None:
    settle(review)
    world.box(lambda: write("top", "SHOWN\n"))
    plan = review.plan()
    world.box(lambda: write("top", "EVIL!\n"))
    result = review.apply(plan)
    assert [done.conflict for done in result.done] == [True]
    assert tree(world.base)["top"] == "top\n"


def test_an_edit_of_the_box_after_the_apply_stays_in_the_box(world: World, review: Review) -> None:
    settle(review)
    world.box(lambda: write("top", "FIRST\n"))
    apply(review)
    review.opened()
    world.box(lambda: write("top", "SECOND\n"))
    apply(review)
    assert tree(world.base)["top"] == "SECOND\n"


def test_a_conflict_can_be_overwritten_by_name_and_undone(world: World, review: Review) -> None:
    settle(review)
    world.box(lambda: write("top", "BOX\n"))
    (world.base / "top").write_text("HOST\n", "utf-8")
    review.apply(review.plan(overwrite=["top"]))
    assert tree(world.base)["top"] == "BOX\n"
    review.undo()
    assert tree(world.base)["top"] == "HOST\n"


def test_an_undo_does_not_overwrite_what_the_host_did_since(world: World, review: Review) -> None:
    settle(review)
    world.box(writing({"top": "BOX\n", "src/a.py": "box\n"}))
    apply(review)
    (world.base / "top").write_text("HOST\n", "utf-8")
    result = review.undo()
    assert [done.path for done in result.conflicts] == ["top"]
    assert (tree(world.base)["top"], tree(world.base)["src/a.py"]) == ("HOST\n", "a = 1\n")


def test_undos_go_back_one_apply_each_until_there_is_none(world: World, review: Review) -> None:
    settle(review)
    world.box(writing({"top": "BOX\n", "src/a.py": "box\n"}))
    before = tree(world.base)
    apply(review, "top")
    apply(review, "src")
    review.undo()
    assert tree(world.base)["src/a.py"] == "a = 1\n"
    review.undo()
    assert tree(world.base) == before
    with pytest.raises(UserError, match="no apply to undo"):
        review.undo()


def test_dangers_are_withheld_until_each_gets_a_yes(world: World, review: Review) -> None:
    settle(review)
    world.box(writing({"Makefile": "all:\n", ".envrc": "x", "plain": "x"}))
    plan = review.plan()
    assert [operation.path for operation in plan.operations] == ["plain"]
    assert {held.path: held.why for held in plan.withheld} == {"Makefile": Why.DANGER, ".envrc": Why.DANGER}
    plan = review.plan(accepted=[".envrc"])
    assert {operation.path for operation in plan.operations} == {"plain", ".envrc"}


def test_refused_entries_stay_in_the_box_whatever_is_accepted(world: World, review: Review) -> None:
    settle(review)
    world.box(both(lambda: os.mkfifo("fifo"), lambda: write(".git/config", "evil")))
    plan = review.plan(accepted=["fifo", ".git", ".git/config"], overwrite=["fifo", ".git"])
    assert plan.operations == ()
    assert {held.why for held in plan.withheld} == {Why.REFUSED}


def _box_on(world: World, root: Path) -> World:
    """Another box over the same workspace."""
    for name in ("upper", "work", "view", "state"):
        (root / name).mkdir(mode=0o700)
    (root / "base").symlink_to(world.base)
    return World(root)


def test_ten_boxes_on_one_checkout_apply_their_own_changes(
    tmp_path_factory: pytest.TempPathFactory, world: World
) -> None:
    boxes = []
    for number in range(10):
        box = _box_on(world, tmp_path_factory.mktemp(f"box{number}"))
        boxes.append(box)
        with Review(os.fspath(world.base), os.fspath(box.upper), os.fspath(box.state)) as review:
            settle(review)
    for number, box in enumerate(boxes):
        box.box(writing({f"own{number}": "x", "top": f"{number}"}))
    applied = []
    for box in boxes:
        with Review(os.fspath(world.base), os.fspath(box.upper), os.fspath(box.state)) as review:
            plan = review.plan()
            review.apply(plan)
            applied.append([held.path for held in plan.withheld])
    assert applied == [[], *([["top"]] * 9)]
    assert tree(world.base)["top"] == "0"
    assert {f"own{number}" for number in range(10)} <= set(tree(world.base))
    assert [box.view()["top"] for box in boxes] == [str(number) for number in range(10)]


def test_of_boxes_that_apply_at_the_same_moment_the_one_that_is_told_so_has_its_version_there(
    tmp_path_factory: pytest.TempPathFactory, world: World
) -> None:
    """Each has looked before any came home, so all of them swap; who finds another's there swaps back."""
    with contextlib.ExitStack() as stack:
        applies = []
        for number in range(8):
            box = _box_on(world, tmp_path_factory.mktemp(f"box{number}"))
            shared = os.fspath(world.root / "turns")
            review = Review(os.fspath(world.base), os.fspath(box.upper), os.fspath(box.state), turns=shared)
            settle(stack.enter_context(review))
            box.box(writing({"top": f"{number}"}))
            applies.append(partial(review.apply, review.plan()))
        with ThreadPoolExecutor(8) as pool:
            results = [future.result() for future in [pool.submit(apply) for apply in applies]]
    winners = [number for number, result in enumerate(results) if not result.conflicts]
    assert [tree(world.base)["top"]] == [str(number) for number in winners]
    assert not list(world.base.glob(".paddock*"))


@pytest.mark.privileged
def test_what_a_foreign_uid_wrote_comes_home_as_the_owners_of_the_workspace(world: World, review: Review) -> None:
    for place in (world.base, world.base / "top", world.base / "src"):
        os.chown(place, 61235, 61236)
    settle(review)
    world.box(writing({"top": "BOX\n", "new/in": "x"}), kernel.CLONE_NEWNS)
    for path in ("top", "new", "new/in"):
        os.chown(world.upper / path, 201000, 201000)
    apply(review)
    owners = {(world.base / path).stat().st_uid for path in ("top", "new", "new/in")}
    assert owners == {61235}


def test_a_review_says_what_it_is(world: World, review: Review) -> None:
    assert repr(review) == f"<Review {world.upper} over {world.base} open>"


def test_a_directory_over_a_file_that_the_host_changed_between_two_mounts_is_a_conflict(
    world: World, review: Review
) -> None:
    settle(review)
    world.box(both(lambda: os.unlink("top"), lambda: os.mkdir("top"), lambda: write("src/a.py", "box")))
    (world.base / "top").write_text("HOST\n", "utf-8")
    (world.base / "src/a.py").write_text("HOST\n", "utf-8")
    settle(review)
    plan = review.plan(accepted=["top"])
    assert [(held.path, held.why) for held in plan.withheld] == [("src/a.py", Why.CONFLICT), ("top", Why.CONFLICT)]


def test_what_the_host_changed_before_the_last_mount_is_what_the_box_starts_from(world: World, review: Review) -> None:
    settle(review)
    (world.base / "top").write_text("HOST\n", "utf-8")
    settle(review)
    world.box(lambda: write("top", "BOX\n"))
    assert review.plan().withheld == ()


# -- what is shown, and merges -----------------------------------------------------------------------------------------


def test_a_diff_shows_the_chosen_paths_with_their_dangers(world: World, review: Review) -> None:
    world.box(writing({"src/Makefile": "all:\n", "src/a.py": "a = 2\n", "top": "TOP\n"}))
    shown = {one.path: one for one in review.diff(["src"])}
    assert set(shown) == {"src/Makefile", "src/a.py"}
    assert [danger.kind for danger in shown["src/Makefile"].dangers] == ["build"]
    assert "+a = 2" in shown["src/a.py"].lines
    assert next(review.diff(["top"], with_lines=False)).lines == ()


def test_a_merge_has_what_both_did_and_can_be_undone(world: World, review: Review) -> None:
    settle(review)
    world.box(lambda: write("notes.txt", "one\ntwo\nTHREE\n"))
    (world.base / "notes.txt").write_text("ONE\ntwo\nthree\n", "utf-8")
    merged = review.merged("notes.txt", b"one\ntwo\nthree\n")
    assert merged == b"ONE\ntwo\nTHREE\n"
    result = review.apply_merged("notes.txt", merged)
    assert [done.error for done in result.done] == [""]
    assert world.view()["notes.txt"] == tree(world.base)["notes.txt"] == "ONE\ntwo\nTHREE\n"
    review.undo()
    assert tree(world.base)["notes.txt"] == "ONE\ntwo\nthree\n"
    assert world.view()["notes.txt"] == "one\ntwo\nTHREE\n"


def test_there_is_no_merge_where_both_changed_the_same(world: World, review: Review) -> None:
    world.box(lambda: write("notes.txt", "one\nBOX\nthree\n"))
    (world.base / "notes.txt").write_text("one\nHOST\nthree\n", "utf-8")
    assert review.merged("notes.txt", b"one\ntwo\nthree\n") is None


def test_only_a_file_on_both_sides_is_merged(world: World, review: Review) -> None:
    world.box(lambda: os.unlink("top"))
    with pytest.raises(UserError, match="not a file on both sides"):
        review.apply_merged("top", b"x")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_hundred_thousand_files_are_told_and_applied(world: World, review: Review) -> None:
    def act() -> None:
        for directory in range(1000):
            os.mkdir(f"d{directory}")
            for number in range(100):
                write(f"d{directory}/{number}", str(number))

    settle(review)
    world.box(act)
    found = review.changes()
    assert len(found.items) == 101_000
    before = tree(world.base)
    result = review.apply(review.plan(found=found))
    assert not [done for done in result.done if done.error]
    assert len(tree(world.base)) == len(before) + 101_000
    assert os.listdir(world.upper) == []
    assert review.changes().items == ()


def test_a_diff_looks_at_what_changed_and_not_at_what_is_there(world: World, review: Review) -> None:
    def grow(first: int, last: int) -> None:
        for number in range(first, last):
            (world.base / f"d{number}").mkdir()
            (world.base / f"d{number}/file").write_text("1\n2\n", "utf-8")

    def looks() -> int:
        seen.clear()
        assert [one.path for one in review.diff()] == [f"d{n}/file" for n in range(5)]
        return len(seen)

    grow(0, 10)
    settle(review)
    world.box(writing({f"d{n}/file": "1\nx\n" for n in range(5)}))
    seen: list[str] = []
    counting = True
    sys.addaudithook(lambda event, _: seen.append(event) if counting else None)
    looks()  # the first imports what it needs
    few = looks()
    grow(10, 500)
    assert looks() == few
    counting = False
    assert few > 10, "the oracle: what it opens is seen"
