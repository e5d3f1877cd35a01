"""Templates built from Dockerfiles, by the command line: what is in them, what is cached, what a build may reach."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from paddock.model.build import BuildRequest
from tests.support import roots
from tests.support.builds import Context, check_clean, check_store, steps
from tests.support.installation import alive, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = [
    pytest.mark.box,
    pytest.mark.container,
    pytest.mark.skipif(not roots.installed(), reason="no OCI runtime on this machine"),
]
HAS_IDS = ids.of_caller(0).count > 1


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return roots.make_small(tmp_path_factory.mktemp("small") / "root")


@pytest.fixture
def context(tmp_path: Path, small: Path) -> Context:
    place = tmp_path / "context"
    place.mkdir()
    return Context(place, small)


def test_a_dockerfile_builds_runs_and_is_built_once(own_installation: Installation, context: Context) -> None:
    one = own_installation
    (context.place / "a.txt").write_text("a\n")
    (context.place / "src").mkdir()
    os.symlink("/etc/passwd", context.place / "src/link")
    (context.place / "left-out").write_text("no\n")
    (context.place / ".dockerignore").write_text("left-out\n")
    context.write(
        "ARG ROOT=./root\n"
        "FROM $ROOT\n"
        "ENV GREETING=hi PATH=/usr/bin\n"
        "WORKDIR /srv/app\n"
        "COPY --chown=agent --chmod=640 a.txt <<EOF ./\nbody $GREETING\nEOF\n"
        "COPY src src/\n"
        "RUN echo $GREETING > said; id -u > who; pwd >> who; rm /etc/of-the-root; ls / > names\n"
        "USER agent\n"
        "RUN id -u > /tmp/who; echo $HOME >> /tmp/who\n"
        'ENTRYPOINT ["/bin/sh", "-c"]\nCMD ["id -u; pwd; cat said EOF"]\n'
    )
    assert steps(context.built(one)) == [False] * 5
    me = "1000" if HAS_IDS else "0"
    done = one.cli("run", "-t", "mine:1")
    expected = "1000" if HAS_IDS or roots.installed()[0] == "crun" else "0"
    assert done.stdout.decode() == f"{expected}\n/srv/app\nhi\nbody hi\n", done.stderr
    look = "cat /srv/app/who /tmp/who; readlink /srv/app/src/link; ls /etc/of-the-root /etc/resolv.conf; cd /srv/app; "
    look += "stat -c %a:%u:%g a.txt; cat a.txt; ls"
    found = one.cli("run", "-t", "mine:1", "--", "sh", "-c", look)
    owner = "640:1000:1000" if HAS_IDS else f"640:{expected}:{expected}"
    home = "/home/agent" if HAS_IDS else "/root"
    assert found.stdout.decode().split() == [
        *("0", "/srv/app", me, home, "/etc/passwd", "/etc/resolv.conf", owner, "a"),
        *("EOF", "a.txt", "names", "said", "src", "who"),
    ], found.stderr
    assert steps(context.built(one)) == [True] * 5
    (context.place / "a.txt").write_text("b\n")
    assert steps(context.built(one)) == [True, False, False, False, False]
    context.write((context.place / "Dockerfile").read_text().replace("body $GREETING", "another body"))
    assert steps(context.built(one)) == [True, False, False, False, False], "a here-document is in the key"
    assert steps(context.built(one, "--no-cache")) == [False] * 5
    check_clean(one)


def test_a_layer_has_what_its_command_changed_and_nothing_of_the_box(
    own_installation: Installation, context: Context
) -> None:
    one = own_installation
    os.symlink("../run/systemd/resolve/stub", context.place / "root/etc/resolv.conf")
    context.write("FROM ./root\nRUN cat /etc/resolv.conf > /dev/null; echo x > /dev/shm/x; echo > /new\n")
    context.built(one)
    (layer,) = (one.state / "layers/frozen").iterdir()
    assert sorted(os.listdir(layer / "tree")) == ["etc", "new", "tmp"], "neither /dev nor /run, nor a place of ours"
    assert os.listdir(layer / "tree/etc") == os.listdir(layer / "tree/tmp") == []
    below = [path for path in (one.state / "layers").glob("s*/*/tree/etc") if os.path.lexists(path / "resolv.conf")]
    assert [os.path.islink(path / "resolv.conf") for path in below] == [True]


def test_stages_copy_from_each_other_and_through_their_own_links(
    own_installation: Installation, context: Context
) -> None:
    context.write(
        "FROM ./root AS maker\nRUN mkdir -p /out/deep; echo made > /out/deep/file; echo > /out/gone\n"
        "RUN rm /out/gone; echo second > /out/second\n"
        "FROM ./root AS unused\nRUN false\n"
        "FROM ./root\nCOPY --from=maker /out /from\nCOPY --from=0 /bin/cat /usr/bin/tac\n"
        "RUN tac /from/deep/file /from/second; ls /from\n"
    )
    said = context.built(own_installation)
    assert [line.strip() for line in said.splitlines() if line.startswith("    ")] == [
        "made",
        "second",
        "deep",
        "second",
    ]
    only = context.built(own_installation, "--target", "maker", name="part:1")
    assert steps(only) == [True, True]


def test_a_command_that_fails_says_where_and_how(installation: Installation, context: Context) -> None:
    context.write("FROM ./root\nRUN echo fine\nRUN echo words; exit 7\n")
    done = context.build(installation)
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "    words\n" in said
    assert "error: Dockerfile line 3: RUN echo words; exit 7 ended with exit code 7" in said
    assert steps(context.build(installation).stderr.decode()) == [True, False]
    context.write("FROM ./root\nUSER nobody-knows\nRUN id\n")
    unknown = context.build(installation)
    assert (unknown.returncode, b"nobody-knows" in unknown.stderr) == (2, True)
    assert (b"Dockerfile line 3: RUN: " in unknown.stderr) == HAS_IDS, unknown.stderr
    context.write("FROM ./root\nRUN exit 7\n")
    failed = context.build(installation, name="failed:1")
    assert failed.returncode == 2
    without = installation.cli("run", "-t", "failed:1", "--", "id")
    assert (without.returncode, b"there is no template failed:1" in without.stderr) == (2, True)


def test_a_build_reaches_what_it_is_allowed_and_says_what_it_was_refused(
    installation: Installation, context: Context
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=_greet, args=(server,), daemon=True).start()
        context.write(f"FROM ./root\nRUN bash -c 'exec 3<>/dev/tcp/localhost/{port} && cat <&3'\n")
        assert context.build(installation).returncode == 2
        assert "    hello" in context.built(installation, "--allow-host", f"localhost:{port}")
        context.write(f"FROM ./root\nRUN --network=none bash -c 'exec 3<>/dev/tcp/localhost/{port} && cat <&3'\n")
        assert context.build(installation, "--allow-host", f"localhost:{port}").returncode == 2
    ask = "GET / HTTP/1.1\\r\\nHost: denied.example\\r\\n\\r\\n"
    context.write(
        f"FROM ./root\nRUN bash -c 'exec 3<>/dev/tcp/denied.example/80; printf \"{ask}\" >&3; cat <&3; exit 3'\n"
    )
    done = context.build(installation)
    assert done.returncode == 2
    assert b"its policy refused denied.example:80: allow it with --allow-host denied.example:80" in done.stderr


def _greet(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"hello\n")


def test_nothing_outside_of_the_build_directory_comes_in(
    installation: Installation, context: Context, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("of the host\n")
    os.symlink(tmp_path / "secret", context.place / "link")
    os.symlink(tmp_path, context.place / "up")
    for text, why in (
        ("FROM ./root\nCOPY link /x\n", "links are not followed"),
        ("FROM ./root\nCOPY up/secret /x\n", "is no directory of its own"),
        ("FROM ./root\nCOPY ../secret /x\n", "leads out of the build directory"),
        (f"FROM {tmp_path}\nRUN true\n", "is not in the build directory"),
        ("FROM ../\nRUN true\n", "is not in the build directory"),
        ("FROM ./up\nRUN true\n", "is no image and no directory"),
        ("FROM nowhere/at-all:1\nRUN true\n", "there is no template nowhere/at-all:1"),
        ("FROM scratch\nRUN true\n", "nothing to RUN"),
        ("FROM ./root\nADD https://example.com/x /x\n", "ADD from the network is not supported"),
    ):
        done = context.write(text).build(installation)
        assert done.returncode in {2, 125}, text
        assert why in done.stderr.decode(), (text, done.stderr)
    (context.place / "Dockerfile").unlink()
    os.symlink(tmp_path / "secret", context.place / "Dockerfile")
    done = context.build(installation)
    assert (done.returncode, b"no link" in done.stderr) == (2, True), done.stderr
    assert b"of the host" not in done.stderr
    words = ("-t", "x", "-f", str(tmp_path / "secret"), str(context.place))
    named = installation.cli("template", "build", *words)
    assert b"line 1: unknown instruction OF" in named.stderr, "one that its user names is read wherever it is"


def test_a_lock_refuses_what_differs(installation: Installation, context: Context, tmp_path: Path) -> None:
    (context.place / "a").write_text("one")
    context.write("FROM ./root\nCOPY a /a\nRUN cat /a > /b\n")
    lock = tmp_path / "its.lock"
    without = context.build(installation, "--locked")
    assert (without.returncode, b"there is no lock file" in without.stderr) == (2, True)
    context.built(installation, "--lock", str(lock))
    assert lock.read_text().count("[[step]]") == 2
    assert lock.read_text().count("[[base]]") == 1
    context.built(installation, "--lock", str(lock), "--locked", "--no-cache")
    context.write("FROM ./root\nCOPY a /a\nRUN cat /a > /b\nENV LD_PRELOAD=/evil.so\n")
    changed = context.build(installation, "--lock", str(lock), "--locked")
    assert (changed.returncode, b"how the image is run is not what the lock file has" in changed.stderr) == (2, True)
    context.write("FROM ./root\nCOPY a /a\nRUN cat /a > /b\n")
    before = lock.read_bytes()
    (context.place / "a").write_text("two")
    changed = context.build(installation, "--lock", str(lock), "--locked")
    assert (changed.returncode, b"step 1 is not what the lock file has" in changed.stderr) == (2, True)
    (context.place / "a").write_text("one")
    (context.place / "root/etc/of-the-root").write_text("another base")
    changed = context.build(installation, "--lock", str(lock), "--locked")
    assert (changed.returncode, b"FROM ./root is sha256:" in changed.stderr) == (2, True), changed.stderr
    assert lock.read_bytes() == before
    lock.write_text("version = 2\n")
    assert context.build(installation, "--lock", str(lock), "--locked").returncode == 2


def test_who_leaves_ends_a_build_and_the_next_goes_on(own_installation: Installation, context: Context) -> None:
    one = own_installation
    context.write("FROM ./root\nRUN echo one > /one\nRUN echo begun; sleep 1000\n")
    for number in (signal.SIGINT, signal.SIGKILL):
        with context.start(one) as build:
            _await_line(build, "begun")
            build.send_signal(number)
            build.wait(30)
        until(lambda: one.cli("ls", "-q").stdout == b"", "the box of the step is gone", 30)
    context.write("FROM ./root\nRUN echo one > /one\nRUN echo begun\n")
    assert steps(context.built(one)) == [True, False]
    until(lambda: os.listdir(one.state / "layers/staging") == [], "nothing is staged")
    check_clean(one)


def test_a_killed_daemon_leaves_a_store_that_the_next_build_goes_on_from(
    own_installation: Installation, context: Context
) -> None:
    """At each line that a build says: before a step, in it, and after it."""
    one = own_installation
    text = (
        "FROM ./root\nRUN echo a > /a; echo said\nCOPY Dockerfile /d\nRUN echo b > /b; sleep 0.3; rm /a\nWORKDIR /w\n"
    )
    context.write(text)
    for count in range(1, 7):
        with context.start(one, *(["--no-cache"] if count == 1 else [])) as build:
            for _ in range(count):
                assert build.stderr is not None
                build.stderr.readline()
            pid = _daemon_of(one)
            os.kill(pid, signal.SIGKILL)
            code = build.wait(60)
        assert code in {0, 125}
        until(lambda gone=pid: not alive(gone), "the daemon is gone", 20)  # type: ignore[misc]
        check_store(one)
    assert steps(context.built(one))[0], "something came from the cache"
    script = "ls /a 2>/dev/null; cat /b; stat -c %F /d /w"
    assert one.cli("run", "-t", "mine:1", "--", "sh", "-c", script).stdout == b"b\nregular file\ndirectory\n"
    until(lambda: one.cli("ls", "-q").stdout == b"", "no box of a step is left", 30)
    assert one.cli("checkpoint", "prune").returncode == 0
    check_clean(one)


def _daemon_of(one: Installation) -> int:
    found = json.loads(one.cli("daemon", "status", "--json").stdout)
    assert isinstance(found["pid"], int)
    return int(found["pid"])


def _await_line(build: object, words: str) -> None:
    for line in build.stderr:  # type: ignore[attr-defined]
        if line.strip() == words.encode():
            return
    pytest.fail(f"it never said {words}")


def test_the_sdk_builds_and_tells(installation: Installation, context: Context) -> None:
    context.write("ARG WORD\nFROM ./root\nARG WORD=none\nRUN echo $WORD\n")
    with installation.sdk() as paddock:
        made = paddock.templates.build("by-sdk", str(context.place), arguments={"WORD": "given"})
        assert (made.name, made.tag, made.steps) == ("by-sdk", "latest", 1)
        request = BuildRequest(name="by-sdk", directory=str(context.place), arguments={"WORD": "other"})
        with paddock.templates.start_build(request) as build:
            told = list(build.events())
    assert [event.kind for event in told] == ["base", "step", "output"]
    assert (told[1].words, told[1].cached, told[2].data) == ("RUN echo $WORD", False, b"other\n")
    assert build.result is not None
    assert build.result.lock.bases[0].name == "./root"
