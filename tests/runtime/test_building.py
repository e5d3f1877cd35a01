"""Builds without a box: what is copied, cached, refused and ended."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import sys
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import frames
from paddock.client import buildevents
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.images.build import RunStep
from paddock.images.layers import LayerId, Layers
from paddock.model.build import BuildInfo, BuildRequest
from paddock.model.reference import Reference
from paddock.runtime import building, builtins, forms, space, steps, steptargets
from paddock.store import Store, TemplateRow
from tests.support.serving import within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime

pytestmark = [pytest.mark.box, pytest.mark.container]
Told = list[object]
_CHANGES = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "subprocess.Popen"})


async def _build(runtime: Runtime, order: BuildRequest) -> Told:
    """All that is told; an error in its place."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.setblocking(False)
        work = asyncio.create_task(building.serve(runtime, order, theirs))
        decoder = frames.Decoder()
        told: Told = []
        while data := await asyncio.get_running_loop().sock_recv(ours, 65536):
            for frame in decoder.feed(data):
                try:
                    told.append(buildevents.read(frame))
                except PaddockError as error:
                    told.append(error)
        await work
    return told


def _context(tmp_path: Path, text: str) -> Path:
    place = tmp_path / "context"
    place.mkdir(exist_ok=True)
    (place / "Dockerfile").write_text(text)
    return place


def _tree(runtime: Runtime, told: Told) -> dict[str, str]:
    """What the files of a template hold, the highest layer's word counting."""
    made = told[-1]
    assert isinstance(made, BuildInfo), made
    row = runtime._store.template(made.name, made.tag)
    assert row is not None
    found: dict[str, str] = {}
    for layer in row.chain:
        tree = Layers(runtime.paths.layers).tree(LayerId(layer))
        for above, _, names in os.walk(tree):
            for name in names:
                with open(f"{above}/{name}", encoding="utf-8") as file:
                    found[f"{above}/{name}"[len(tree) + 1 :]] = file.read()
    return found


def test_files_and_here_documents_become_layers_and_are_cached(tmp_path: Path) -> None:
    place = _context(tmp_path, 'FROM scratch\nCOPY a <<B /x/\nbody\nB\nWORKDIR /w\nCOPY a .\nCMD ["/x/a"]\n')
    (place / "a").write_text("one")

    async def act(runtime: Runtime) -> None:
        order = BuildRequest(name="mine:1", directory=str(place))
        first = await _build(runtime, order)
        assert _tree(runtime, first) == {"x/a": "one", "x/B": "body\n", "w/a": "one"}
        row = await runtime.catalogue.find(Reference.parse("mine:1"))
        assert (row.source, row.image.command, row.image.workdir) == ("build", ("/x/a",), "/w")
        again = await _build(runtime, order)
        assert [getattr(event, "cached", None) for event in again] == [True, True, True, None]
        (place / "a").write_text("two")
        assert _tree(runtime, await _build(runtime, order))["w/a"] == "two"

    within(tmp_path / "home", act)


def test_an_archive_is_unpacked_by_add_and_copied_by_copy(tmp_path: Path) -> None:
    place = _context(tmp_path, "FROM scratch\nADD a.tgz /opt/\nCOPY a.tgz /as-it-is/\nADD plain /opt/\n")
    (place / "file").write_text("in it")
    (place / "plain").write_text("plain")
    with tarfile.open(place / "a.tgz", "w:gz") as archive:
        archive.add(place / "file", "dir/file")

    async def act(runtime: Runtime) -> None:
        order = BuildRequest(name="mine", directory=str(place))
        made = (await _build(runtime, order))[-1]
        assert isinstance(made, BuildInfo), made
        row = await runtime.catalogue.find(Reference.parse("mine"))
        trees = [Layers(runtime.paths.layers).tree(LayerId(layer)) for layer in row.chain]
        with open(f"{trees[0]}/opt/dir/file", encoding="utf-8") as file:
            assert file.read() == "in it"
        assert os.path.getsize(f"{trees[1]}/as-it-is/a.tgz") == (place / "a.tgz").stat().st_size
        assert os.listdir(f"{trees[2]}/opt") == ["plain"]
        (place / "Dockerfile").write_text("FROM scratch\nADD a.tgz plain /opt/\n")
        refused = (await _build(runtime, order))[-1]
        assert "with one archive alone" in str(refused)

    within(tmp_path / "home", act)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM scratch\n", "an image without files"),
        ("FROM scratch\nCOPY none /x\n", "line 2: there is no 'none' to copy"),
        ("FROM scratch\nCOPY big /x\n", "bytes, at most"),
        ("FROM scratch\nRUN x\n", "line 2: there is nothing to RUN"),
        ("FROM ./Dockerfile\n", "line 1: the archive is refused"),
        ("FROM ../x\n", "line 1: '../x' is not in the build directory"),
        ("FROM x y\n", "line 1: FROM takes an image"),
        ("FROM UPPER\n", "line 1: 'UPPER' is no name of a template"),
        ('FROM scratch\nCOPY Dockerfile /\nCMD ["\\ud800"]\n', "line 3: a word has a zero byte or half a character"),
        ("nonsense\n", "line 1: unknown instruction NONSENSE"),
        ("", "no FROM"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    place = _context(tmp_path, text)
    with open(place / "big", "wb") as file:
        file.truncate(1 << 42)  # a hole: it must be refused before it is read

    async def act(runtime: Runtime) -> None:
        (*_, error) = await _build(runtime, BuildRequest(name="mine", directory=str(place)))
        assert isinstance(error, UserError)
        assert words in error.message
        assert await runtime.catalogue.listed() == []

    within(tmp_path / "home", act)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ENV LD_PRELOAD=/evil.so\n", "how the image is run"),
        ("USER 1234\n", "how the image is run"),
        ('ENTRYPOINT ["/evil"]\n', "how the image is run"),
        ("COPY Dockerfile /c/\n", "the number of steps"),
        ("", ""),
    ],
)
def test_a_lock_refuses_another_configuration_and_another_number_of_steps(
    tmp_path: Path, text: str, words: str
) -> None:
    locked = "FROM scratch\nCOPY a /a/\nWORKDIR /w\n"
    place = _context(tmp_path, locked)
    (place / "a").write_text("one")

    async def act(runtime: Runtime) -> None:
        order = BuildRequest(name="mine", directory=str(place))
        (*_, made) = await _build(runtime, order)
        assert isinstance(made, BuildInfo), made
        assert made.digest == made.lock.digest
        before = await runtime.catalogue.listed()
        (place / "Dockerfile").write_text(f"{locked}{text}")
        (*_, end) = await _build(runtime, replace(order, locked=made.lock))
        if not words:  # the oracle
            assert end == made
            return
        assert f"{words} is not what the lock file has" in str(end)
        assert await runtime.catalogue.listed() == before
        (*_, free) = await _build(runtime, order)
        assert isinstance(free, BuildInfo), free
        assert free.digest != made.digest

    within(tmp_path / "home", act)


def test_steps_that_a_lock_has_and_the_file_has_not_are_missed_before_anything_is_made(tmp_path: Path) -> None:
    place = _context(tmp_path, "FROM scratch\nCOPY Dockerfile /a/\nWORKDIR /w\n")

    async def act(runtime: Runtime) -> None:
        order = BuildRequest(name="mine", directory=str(place))
        (*_, made) = await _build(runtime, order)
        assert isinstance(made, BuildInfo), made
        (place / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /a/\n")
        (error,) = await _build(runtime, replace(order, locked=made.lock))
        assert "the number of steps is not what the lock file has" in str(error)

    within(tmp_path / "home", act)


def test_a_locked_base_has_the_configuration_that_it_had(tmp_path: Path) -> None:
    place = _context(tmp_path, "FROM scratch\nCOPY a /a/\n")
    (place / "a").write_text("one")

    async def act(runtime: Runtime) -> None:
        base, order = (BuildRequest(name=name, directory=str(place)) for name in ("low", "high"))
        await _build(runtime, base)
        (place / "Dockerfile").write_text("FROM low\nCOPY a /b/\n")
        (*_, made) = await _build(runtime, order)
        assert isinstance(made, BuildInfo), made
        again = await _build(runtime, replace(order, locked=made.lock))
        assert again[-1] == made, "the oracle"
        (place / "Dockerfile").write_text("FROM scratch\nCOPY a /a/\nENV LD_PRELOAD=/evil.so\n")
        await _build(runtime, base)
        (place / "Dockerfile").write_text("FROM low\nCOPY a /b/\n")
        (*_, error) = await _build(runtime, replace(order, locked=made.lock))
        assert "FROM low is sha256:" in str(error)

    within(tmp_path / "home", act)


def test_names_and_directories_that_are_none_are_refused(tmp_path: Path) -> None:
    place = _context(tmp_path, "FROM scratch\nCOPY Dockerfile /\n")

    async def act(runtime: Runtime) -> None:
        for name, directory in (("UPPER", str(place)), ("a", str(tmp_path / "none")), ("a", runtime.paths.state)):
            (*_, error) = await _build(runtime, BuildRequest(name=name, directory=directory))
            assert isinstance(error, PaddockError), (name, directory)

    within(tmp_path / "home", act)


def test_a_dockerfile_in_the_directory_is_no_link_and_one_elsewhere_may_be(tmp_path: Path) -> None:
    place = _context(tmp_path, "FROM scratch\nCOPY Dockerfile /\n")
    (tmp_path / "elsewhere").write_text("FROM scratch\nCOPY Dockerfile /else/\n")
    os.symlink(tmp_path / "elsewhere", tmp_path / "link")
    (place / "sub").mkdir()
    os.symlink(tmp_path / "elsewhere", place / "sub/planted")
    os.mkfifo(place / "sub/fifo")

    async def act(runtime: Runtime) -> None:
        for name, words in (("sub/planted", "no link"), ("sub/fifo", "no file"), ("none", "-f"), ("sub", "-f")):
            order = BuildRequest(name="mine", directory=str(place), dockerfile=str(place / name))
            (*_, error) = await _build(runtime, order)
            assert isinstance(error, UserError), name
            assert words in f"{error.message} {error.hint}", name
        order = BuildRequest(name="mine", directory=str(place), dockerfile=str(tmp_path / "link"))
        assert [*_tree(runtime, await _build(runtime, order))] == ["else/Dockerfile"]

    within(tmp_path / "home", act)


def test_who_leaves_ends_the_build_and_nothing_stays_leased(tmp_path: Path) -> None:
    place = _context(tmp_path, "FROM scratch\nCOPY Dockerfile /\nCOPY . /all/\n")
    for number in range(300):
        (place / f"{number}").write_text("x" * 1000)

    async def act(runtime: Runtime) -> None:
        ours, theirs = socket.socketpair()
        work = asyncio.create_task(building.serve(runtime, BuildRequest(name="mine", directory=str(place)), theirs))
        await asyncio.sleep(0)
        ours.close()
        await work
        layers = Layers(runtime.paths.layers)
        while os.listdir(f"{layers.root}/leases"):
            await asyncio.sleep(0.01)
        assert os.listdir(f"{layers.root}/staging") == []
        assert runtime.builds._value == 4, "the next may begin"

    within(tmp_path / "home", act)


def test_a_template_of_ours_is_wanted_until_it_is_there_as_it_is_now(tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        order = await building.wanted(runtime, "base")
        assert order is not None
        assert (order.name, order.directory, order.network) == ("base", "", builtins.NETWORK)
        assert await building.wanted(runtime, "base:1") is None
        for source, is_wanted in (("built-in old", True), (builtins.source("base"), False), ("build", False)):
            config = json.dumps({"architecture": "amd64", "rootfs": {"diff_ids": []}})
            row = TemplateRow(name="base", tag="latest", chain=("frozen:" + "0" * 32,), config=config, source=source)
            await runtime.catalogue.add(row, replacing=True)
            assert (await building.wanted(runtime, "base") is not None) == is_wanted, source

    within(tmp_path / "home", act)


def _full(*_: object, **__: object) -> None:
    raise Unavailable("cannot write: disk full", hint="free some disk space", code="disk")


def _no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("place", "name", "fails"),
    [
        (Store, "cache", _full),
        (Store, "add_template", _full),
        (steptargets.Sink, "write", _no_space),
        (forms, "added", _full),
    ],
)
def test_a_full_disk_is_said_and_the_next_build_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: object, name: str, fails: object
) -> None:
    context = _context(tmp_path, "FROM scratch\nCOPY Dockerfile /a/\nWORKDIR /w\n")

    async def act(runtime: Runtime) -> None:
        order = BuildRequest(name="mine", directory=str(context))
        with monkeypatch.context() as patched:
            patched.setattr(place, name, fails)
            (*_, error) = await _build(runtime, order)
            assert isinstance(error, Unavailable)
            assert "free some" in error.hint
        assert await runtime.catalogue.listed() == []
        _check(runtime)
        assert [*_tree(runtime, await _build(runtime, order))] == ["a/Dockerfile"]
        _check(runtime)

    within(tmp_path / "home", act)


def _check(runtime: Runtime) -> None:
    """Every layer that a row names is there, and nothing is staged or leased."""
    layers = Layers(runtime.paths.layers)
    assert all(layers.has(LayerId(layer)) for layer in runtime._store.layers())
    assert os.listdir(f"{runtime.paths.layers}/staging") == os.listdir(f"{runtime.paths.layers}/leases") == []


def test_a_build_that_is_killed_at_any_moment_leaves_what_the_next_goes_on_from(tmp_path: Path) -> None:
    context = _context(tmp_path, "FROM scratch\nCOPY Dockerfile /a/\nWORKDIR /w\nCOPY Dockerfile /b/\n")
    order = BuildRequest(name="mine", directory=str(context))

    async def act(runtime: Runtime) -> None:
        assert sorted(_tree(runtime, await _build(runtime, order))) == ["a/Dockerfile", "b/Dockerfile"]
        await space.prune(runtime)
        _check(runtime)

    kills = 0
    for moment in range(1, 1000, 4):
        home = tmp_path / f"home{moment}"
        if not _killed_at(home, moment, order):
            break
        kills += 1
        within(home, _found_sound)
        within(home, act)
    assert kills > 10


async def _found_sound(runtime: Runtime) -> None:
    layers = Layers(runtime.paths.layers)
    assert all(layers.has(LayerId(layer)) for layer in runtime._store.layers())
    for row in await runtime.catalogue.listed():
        assert len(row.chain) == 3


def _killed_at(home: Path, moment: int, order: BuildRequest) -> bool:
    """Build in a process that is killed when it has changed so many names; whether it was."""
    pid = os.fork()
    if pid == 0:
        left = moment

        def count(event: str, _args: object) -> None:
            nonlocal left
            if event in _CHANGES:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        async def act(runtime: Runtime) -> None:
            sys.addaudithook(count)
            runtime._store._db.set_trace_callback(lambda _statement: count("os.rename", ()))
            await _build(runtime, order)
            os._exit(0)

        try:
            within(home, act)
        finally:
            os._exit(70)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    return True


def test_a_refusal_that_no_rule_for_a_host_lifts_is_told_by_its_reason() -> None:
    step = RunStep(line=2, argv=("/bin/sh", "-c", "apt-get update"), env=(), workdir="/", user="root")
    why = "mirror.example leads to 10.0.0.8, a private address, which only a rule for it opens"
    told = building._failed(step, steps.Ran(code=100, why=why))
    assert told.hint == f"its policy refused {why} (--allow-cidr ADDRESS)"
    assert "exit code 100" in told.message


def test_the_hint_for_a_template_of_ours_names_what_its_build_goes_by() -> None:
    step = RunStep(line=2, argv=("apt-get", "update"), env=(), workdir="/", user="root")
    told = building._failed(step, steps.Ran(code=100, why="an address of the house"), has_options=False)
    assert told.hint.endswith("(`paddock policy allow --user ADDRESS`)")
    told = building._failed(step, steps.Ran(code=100, refused=("a.example:80",)), has_options=False)
    assert told.hint == "its policy refused a.example:80: allow it with `paddock policy allow --user a.example:80`"
