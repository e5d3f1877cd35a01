"""What a container box's root is made of."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.images.documents import ImageConfig
from paddock.images.layers import LayerId, Layers
from paddock.images.oci import own_architecture
from paddock.limits import LAYERS_PER_BOX
from paddock.model import BoxId, BoxSpec, EngineName, Mount, WorkspaceMode
from paddock.model.reference import Reference
from paddock.runtime import templates
from paddock.runtime.background import Background
from paddock.runtime.box import Box
from paddock.runtime.catalogue import Catalogue
from paddock.store import Store, new_row

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


def test_an_image_of_more_layers_than_a_box_has_is_refused() -> None:
    templates.require_few([""] * (LAYERS_PER_BOX - 1))
    with pytest.raises(UserError, match=f"it has {LAYERS_PER_BOX} layers"):
        templates.require_few([""] * LAYERS_PER_BOX)


def test_a_layout_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "oci-layout").write_text("{}")
    with pytest.raises(UserError, match="is an OCI layout") as caught:
        templates.resolved(f"{tmp_path}/layers", spec(tmp_path))
    assert "template load" in caught.value.hint


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


def test_a_name_means_what_the_catalogue_has_and_no_place(tmp_path: Path) -> None:
    store = Store(f"{tmp_path}/paddock.db")
    background = Background()
    catalogue = Catalogue(store, background, f"{tmp_path}/templates.json")
    place = f"{tmp_path}/layers"
    saved(tmp_path / "image.tar", _tar({"etc/motd": b"hello\n"}), WorkingDir="/srv")
    made = templates.resolved(place, spec(tmp_path / "image.tar"))

    async def scenario() -> BoxSpec:
        config = ImageConfig(architecture=own_architecture(), diff_ids=(), env=("A=1", "B=2"), working_dir="/srv")
        chain = tuple(map(LayerId, made.layers))
        await catalogue.add(templates.row_of(Reference.parse("team:v1"), config, chain, place))
        found = await templates.resolve(catalogue, place, replace(made, template="team:v1", layers=(), env={"B": "x"}))
        with pytest.raises(UserError, match="there is no template team:latest"):
            await templates.resolve(catalogue, place, replace(made, template="team"))
        await background.close()
        return found

    found = asyncio.run(scenario())
    store.close()
    assert (found.layers, found.image, found.env) == (made.layers, made.image, {"A": "1", "B": "x"})


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no template at"):
        templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "missing"))
    (tmp_path / "text").write_text("no image\n" * 1000)
    with pytest.raises(UserError):
        templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "text"))


def test_no_new_box_can_write_to_the_root_of_another(tmp_path: Path) -> None:
    (tmp_path / "images/root/etc").mkdir(parents=True)
    (tmp_path / "images/other").mkdir()
    own = templates.resolved(f"{tmp_path}/layers", spec(tmp_path / "images/root"))
    box = Box(new_row(BoxId("0123456789ab"), own, ()), str(tmp_path))
    asked = BoxSpec(name="b", agent="shell", workspace=str(tmp_path / "images/other"))
    templates.refuse_planting(asked, [box])
    for place in ("images", "images/root", "images/root/etc"):
        new = replace(asked, workspace=str(tmp_path / place))
        with pytest.raises(UserError, match="the root of 'a'"):
            templates.refuse_planting(new, [box])
        templates.refuse_planting(replace(new, mode=WorkspaceMode.REVIEW), [box])
        mount = Mount(source=str(tmp_path / place), target="/m", read_only=False)
        with pytest.raises(UserError, match="the root of 'a'"):
            templates.refuse_planting(replace(asked, mounts=(mount,)), [box])
        templates.refuse_planting(replace(asked, mounts=(replace(mount, read_only=True),)), [box])
    frozen = replace(own, layers=("sha256:" + "0" * 64,))
    templates.refuse_planting(
        replace(asked, workspace=str(tmp_path / "images")), [Box(replace(box.row, spec=frozen), "")]
    )
