"""Documents of images are read for what we need of them, and refused where that is not what it should be: ARC-07."""

from __future__ import annotations

import json

import pytest

from paddock.errors import UserError
from paddock.images.documents import LAYER_TYPES, Descriptor, Document, ImageConfig, document, parsed
from tests.images import pictures


def test_a_configuration_is_read_and_written_back() -> None:
    more = {"Entrypoint": ["a"], "Labels": {"k": "v"}, "ExposedPorts": {"80/tcp": {}}, "Shell": ["/bin/bash", "-c"]}
    settings = pictures.config(pictures.LOWER, unknown=[1], config={"Env": ["A=1"], "User": "0:0", "Cmd": None, **more})
    found = ImageConfig.read(pictures.dumped(settings))
    assert found.diff_ids == (pictures.digest(pictures.LOWER),)
    assert (found.env, found.user, found.cmd, found.entrypoint) == (("A=1",), "0:0", (), ("a",))
    assert (found.labels, found.exposed, found.shell) == ({"k": "v"}, ("80/tcp",), ("/bin/bash", "-c"))
    assert ImageConfig.read(found.to_json()) == found


@pytest.mark.parametrize(
    "change",
    [
        {"os": "windows"},
        {"os": 1},
        {"rootfs": []},
        {"rootfs": {"diff_ids": "x"}},
        {"rootfs": {"diff_ids": [1]}},
        {"rootfs": {"diff_ids": ["sha256:../../x"]}},
        {"rootfs": {"diff_ids": ["sha512:" + "0" * 128]}},
        {"rootfs": {"diff_ids": ["sha256:" + "0" * 64] * 501}},
        {"config": []},
        {"config": {"Env": "A=1"}},
        {"config": {"Env": [None]}},
        {"config": {"User": 0}},
        {"config": {"Labels": {"a": 1}}},
        {"config": {"ExposedPorts": ["80"]}},
        {"history": [{"created_by": "a"}, {"created_by": "b"}]},
        {"history": [1]},
    ],
)
def test_a_configuration_that_lies_or_is_malformed_is_refused(change: dict[str, object]) -> None:
    settings = pictures.config(pictures.LOWER)
    ImageConfig.read(pictures.dumped(settings))
    with pytest.raises(UserError) as caught:
        ImageConfig.read(pictures.dumped(settings | change))
    assert caught.value.code == "bad-archive"


def test_steps_of_the_history_that_made_no_layer_do_not_count() -> None:
    history = [{"created_by": "a"}, {"created_by": "b", "empty_layer": True}]
    found = ImageConfig.read(pictures.dumped(pictures.config(pictures.LOWER, history=history)))
    assert len(found.diff_ids) == 1


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a":1,"a":2}', b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_not_json_with_one_meaning_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="is not JSON"):
        parsed(data, "it")


@pytest.mark.parametrize("data", [b"[]", b"1", b"null", b'"x"'])
def test_a_document_is_an_object(data: bytes) -> None:
    with pytest.raises(UserError, match="is no object"):
        document(data, "it")


@pytest.mark.parametrize(
    "change",
    [
        {"mediaType": "application/vnd.docker.plugin.v1+json"},
        {"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"},
        {"mediaType": None},
        {"digest": "sha256:" + "A" * 64},
        {"digest": "../../x"},
        {"size": -1},
        {"size": True},
        {"size": "1"},
        {"urls": ["https://example.com"]},
    ],
)
def test_a_descriptor_names_a_blob_that_is_here_by_its_sum(change: dict[str, object]) -> None:
    value = pictures.described(b"x", "layer.v1.tar")
    assert Descriptor.read(Document(value, "it"), LAYER_TYPES).digest == pictures.digest(b"x")
    with pytest.raises(UserError):
        Descriptor.read(Document(value | change, "it"), LAYER_TYPES)


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
@pytest.mark.parametrize("key", ["Env", "Entrypoint", "Cmd", "User", "WorkingDir", "StopSignal", "Labels", "Volumes"])
def test_what_no_command_can_be_given_is_refused(key: str, bad: str) -> None:
    """Such an image was taken, and nothing could be started in its boxes."""
    values: dict[str, object] = {"Labels": {"a": bad}, "Volumes": {bad: {}}}
    value = values.get(key, [bad] if key in {"Env", "Entrypoint", "Cmd"} else bad)
    whole = {"architecture": "amd64", "rootfs": {"diff_ids": []}, "config": {key: value}}
    with pytest.raises(UserError, match="is no text"):
        ImageConfig.read(json.dumps(whole).encode())


@pytest.mark.parametrize(
    "config", [{"Entrypoint": ["x" * 100] * 3000}, {"Env": [f"A{number}=1" for number in range(30_000)]}]
)
def test_an_image_says_no_more_than_goes_into_a_message(config: dict[str, object]) -> None:
    """Else one image would be enough that no list of templates, or of boxes, can be sent."""
    whole: dict[str, object] = {"architecture": "amd64", "rootfs": {"diff_ids": []}}
    with pytest.raises(UserError, match="bytes of words"):
        ImageConfig.read(json.dumps({**whole, "config": config}).encode())
    assert ImageConfig.read(json.dumps({**whole, "config": {"Labels": {"a": "x" * 300_000}}}).encode()).labels
