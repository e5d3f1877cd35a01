"""Templates from a registry and into one: through the gateway, by sums, and with a password that is not in the box."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
import threading
from typing import TYPE_CHECKING, Any

import pytest

from paddock.images.layers import Layers
from paddock.runtime import pulling, unpacking
from paddock.store import TemplateRow
from tests.images import tars
from tests.runtime.test_loading import LAYER, image, put, settings
from tests.support.images import digest, registry
from tests.support.installation import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.images import Registry
    from tests.support.installation import Installation

pytestmark = [
    pytest.mark.box,
    pytest.mark.skipif(shutil.which("skopeo") is None, reason="no skopeo on this machine"),
]
_TYPE = "application/vnd.oci.image."
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@pytest.fixture(autouse=True)
def _templates(installation: Installation) -> Iterator[None]:
    """None before and none after."""
    assert listed(installation) == {}
    yield
    for name in listed(installation):
        done(installation, "rm", name)


def done(installation: Installation, *words: str) -> str:
    found = installation.cli("template", *words)
    assert found.returncode == 0, found.stderr
    return found.stdout.decode()


def listed(installation: Installation) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(done(installation, "ls", "--json"))}


def described(data: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest(data), "size": len(data)}


def offer(there: Registry, name: str = "team/tool", tag: str = "v1", layer: bytes = LAYER) -> str:
    """As Docker pushes it: its own types, and compressed."""
    config, blob = json.dumps(settings(layer)).encode(), gzip.compress(layer, mtime=0)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(config, "application/vnd.docker.container.image.v1+json"),
        "layers": [described(blob, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
    }
    return there.put(name, tag, manifest, config, blob)


def test_an_image_is_pulled_by_its_name_and_by_its_sum(installation: Installation) -> None:
    with registry() as there:
        sum_ = offer(there)
        name = f"localhost:{there.port}/team/tool"
        done(installation, "pull", f"{name}:v1")
        (info,) = listed(installation).values()
        assert (info["name"], info["source"], info["digest"]) == (f"{name}:v1", "registry", sum_)
        done(installation, "pull", f"{name}@{sum_}", "-t", "mine")
        offer(there, layer=tars.archive(tars.file(b"other", b"x")))
        done(installation, "pull", f"{name}:v1")
        found = listed(installation)
        assert found["mine:latest"]["layers"] != found[f"{name}:v1"]["layers"]


def test_of_several_machines_this_one_is_pulled_and_the_sum_is_that_of_the_list(installation: Installation) -> None:
    from paddock.images.oci import own_architecture

    with registry() as there:
        offer(there, tag="of-this")
        manifest = there.manifests["team/tool:of-this"]
        entry = described(manifest, MANIFEST) | {"platform": {"architecture": own_architecture(), "os": "linux"}}
        other = {"mediaType": MANIFEST, "digest": "sha256:" + "0" * 64, "size": 9, "platform": {"os": "windows"}}
        index = {"schemaVersion": 2, "mediaType": f"{_TYPE}index.v1+json", "manifests": [other, entry]}
        sum_ = there.put("team/tool", "v1", index)
        name = f"localhost:{there.port}/team/tool"
        done(installation, "pull", f"{name}:v1@{sum_}")
        (info,) = listed(installation).values()
        assert info["digest"] == sum_


def test_what_is_not_what_was_asked_for_is_refused_and_leaves_nothing(installation: Installation) -> None:
    with registry() as there:
        sum_ = offer(there)
        name = f"localhost:{there.port}/team/tool"
        there.manifests[f"team/tool@{'sha256:' + '1' * 64}"] = there.manifests["team/tool:v1"]
        blob = next(key for key, data in there.blobs.items() if data[:2] == b"\x1f\x8b")
        cases = [f"{name}@sha256:{'1' * 64}", f"{name}:missing", f"{name}:v1@sha256:{'2' * 64}"]
        for case in cases:
            assert installation.cli("template", "pull", case).returncode == 2, case
        there.blobs[blob] = gzip.compress(tars.archive(tars.file(b"etc/name", b"changed")), mtime=0)
        assert installation.cli("template", "pull", f"{name}@{sum_}").returncode == 2
        assert listed(installation) == {}
        assert json.loads(installation.cli("ls", "--json").stdout) == []
        layers = installation.state / "layers"
        assert [*(layers / "staging").iterdir()] == []


def test_a_box_that_pulls_reaches_its_registry_alone_and_policy_counts(installation: Installation) -> None:
    with registry() as there, registry() as elsewhere:
        offer(there)
        name = f"localhost:{there.port}/team/tool:v1"
        refused = installation.cli("template", "pull", name, "--block-host", f"localhost:{there.port}")
        assert refused.returncode == 2
        assert there.asked == []
        installation.cli("template", "pull", name)  # the oracle
        assert there.asked
        assert elsewhere.asked == []


def test_a_template_of_ones_own_is_not_replaced_by_a_pull(installation: Installation, tmp_path: Path) -> None:
    with registry() as there:
        offer(there)
        name = f"localhost:{there.port}/team/tool:v1"
        done(installation, "load", put(tmp_path, image(LAYER)), "-t", name)
        refused = installation.cli("template", "pull", name)
        assert (refused.returncode, there.asked) == (2, [])
        assert b"of your own" in refused.stderr
        done(installation, "pull", name, "-t", name)


def test_names_of_our_own_are_pulled_by_who_says_them_alone(installation: Installation) -> None:
    for name in ("base", "localhost/docker"):
        refused = installation.cli("template", "pull", name)
        assert (refused.returncode, listed(installation)) == (2, {})
        assert b"paddock's own" in refused.stderr
    with registry() as there:
        sum_ = offer(there, tag="latest")
        name = f"localhost:{there.port}/team/tool"
        done(installation, "pull", name)
        done(installation, "pull", f"{name}@{sum_}")
        assert {*listed(installation)} == {f"{name}:latest", f"{name}:{sum_.replace(':', '-')[:23]}"}


def test_who_leaves_ends_the_box_that_pulls(installation: Installation) -> None:
    with registry() as there:
        there.silence = threading.Event()
        offer(there)
        process = installation.spawn("template", "pull", f"localhost:{there.port}/team/tool:v1")
        try:
            until(lambda: any("/blobs/" in line for line in there.asked), "a layer is asked for")
            process.kill()
            process.communicate()
            until(lambda: not os.listdir(installation.state / "layers/leases"), "nothing is leased")
            until(lambda: not os.listdir(installation.state / "boxes"), "its box is gone")
        finally:
            there.silence.set()
        assert listed(installation) == {}
        done(installation, "pull", f"localhost:{there.port}/team/tool:v1")  # the oracle


def test_what_is_packed_for_a_push_leaves_the_host_its_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How is in test_layerjail.py."""
    asked: list[object] = []

    def write_out(*_: object, keeps_room: bool) -> tuple[None, str]:
        asked.append(keeps_room)
        return None, ""

    monkeypatch.setattr(unpacking, "write_out", write_out)
    config = json.dumps({"architecture": "amd64", "rootfs": {"diff_ids": []}})
    row = TemplateRow(name="a", tag="b", chain=(), config=config)
    pulling._write(Layers(str(tmp_path / "layers")), row, str(tmp_path / "file"))
    assert asked == [True]


def test_what_is_pushed_is_pulled_again_as_the_same(installation: Installation, tmp_path: Path) -> None:
    with registry() as there:
        done(installation, "load", put(tmp_path, image(LAYER)))
        name = f"localhost:{there.port}/team/pushed:v1"
        sent = json.loads(done(installation, "push", "team:v1", name, "--json"))
        assert sent["digest"] == digest(there.manifests["team/pushed:v1"])
        done(installation, "pull", name.replace(":v1", f"@{sent['digest']}"), "-t", "back")
        out = {}
        for each in ("team:v1", "back:latest"):
            done(installation, "save", each, "-o", str(tmp_path / "out.tar"))
            with tarfile.open(tmp_path / "out.tar") as found:
                saved = json.loads(found.extractfile("manifest.json").read())  # type: ignore[union-attr]
            out[each] = (saved[0]["Config"], saved[0]["Layers"])
        assert out["team:v1"] == out["back:latest"]
