"""What a container box's root is made of."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images.layers import LayerId, Layers
from paddock.images.oci import own_architecture
from paddock.model import BoxSpec, EngineName
from paddock.runtime import templates

if TYPE_CHECKING:
    from pathlib import Path


def spec(template: Path) -> BoxSpec:
    return BoxSpec(
        name="a", agent="shell", workspace="/w", engine=EngineName.CONTAINER, template=str(template), env={"B": "mine"}
    )


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def saved(path: Path, layer: bytes, **run: object) -> None:
    """An image of one layer, as `docker save` writes it."""
    config = {
        "architecture": own_architecture(),
        "os": "linux",
        "config": {"Env": ["A=1", "B=2"], **run},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = [{"Config": "config.json", "RepoTags": ["a:b"], "Layers": ["one/layer.tar"]}]
    path.write_bytes(
        _tar(
            {
                "manifest.json": json.dumps(manifest).encode(),
                "config.json": json.dumps(config).encode(),
                "one/layer.tar": layer,
            }
        )
    )


def test_a_directory_is_a_root_as_it_is(tmp_path: Path) -> None:
    assert templates.resolved(f"{tmp_path}/layers", spec(tmp_path)).layers == (str(tmp_path),)


def test_an_image_is_unpacked_and_its_variables_come_before_the_users(tmp_path: Path) -> None:
    saved(tmp_path / "image.tar", _tar({"etc/motd": b"hello\n"}))
    found = templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "image.tar"))
    assert found.env == {"A": "1", "B": "mine"}
    (layer,) = found.layers
    tree = Layers(f"{tmp_path}/layers").tree(LayerId(layer))
    with open(f"{tree}/etc/motd", "rb") as file:
        assert file.read() == b"hello\n"


def test_an_image_says_as_whom_where_and_what_it_runs(tmp_path: Path) -> None:
    layer = _tar({"etc/passwd": b"root:x:0:0::/root:\nme:x:1234:5::/:\n", "etc/group": b"of:x:77:\n"})
    words = {"Entrypoint": ["/start"], "Cmd": ["it"], "WorkingDir": "/srv"}
    found = {}
    for user in ("me", "1234:of", "99", "root", ""):
        saved(tmp_path / "image.tar", layer, User=user, **words)
        found[user] = templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "image.tar")).image
    ran = {user: (image.user, image.uid, image.gid) for user, image in found.items()}
    assert ran == {
        "me": ("me", 1234, 5),
        "1234:of": ("me:of", 1234, 77),
        "99": ("99", 99, 0),
        "root": ("", 0, 0),
        "": ("", 0, 0),
    }
    assert (found["me"].entrypoint, found["me"].command, found["me"].workdir) == (("/start",), ("it",), "/srv")


def test_a_user_that_an_image_lacks_is_refused_before_there_is_a_box(tmp_path: Path) -> None:
    saved(tmp_path / "image.tar", _tar({"etc/motd": b""}), User="me")
    with pytest.raises(UserError, match="the image runs as 'me': no user 'me' is in its /etc/passwd"):
        templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "image.tar"))


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no template at"):
        templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "missing"))
    (tmp_path / "text").write_text("no image\n" * 1000)
    with pytest.raises(UserError):
        templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "text"))
