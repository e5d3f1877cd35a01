"""The JSON documents of images: what they say to us, from bytes that anybody may have written, and how we write them.

Foreign documents have keys that are none of our business, so unknown ones are passed over here, unlike in our own
files. A key that we read must be of its type; null means that it is not there, as Docker writes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from paddock.images.tar import refused
from paddock.limits import IMAGE_LAYERS_MAX, IMAGE_WORDS_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
CONFIG_TYPES: Final = (
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
)
INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
LAYER_TYPES: Final = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
)


class Document:
    """An object of a foreign JSON document; asking for a key gives its value or says what is wrong with it."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise refused(f"{where} is no object")
        self._value = value
        self._where = where

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if value is None:
            return ""
        return self._text(key, value)

    def _text(self, key: str, value: object) -> str:
        """What can be a word of a command: JSON has more, a zero byte and halves of characters."""
        if not isinstance(value, str) or not is_whole(value):
            raise refused(f"{key} in {self._where} is no text")
        return value

    def number(self, key: str) -> int:
        value = self._value.get(key, 0)
        if type(value) is not int or value < 0:
            raise refused(f"{key} in {self._where} is no number")
        return value

    def flag(self, key: str) -> bool:
        return self._value.get(key) is True

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(self._text(key, item) for item in self._list(key))

    def pairs(self, key: str) -> dict[str, str]:
        value = self._value.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise refused(f"{key} in {self._where} is no object of texts")
        return {self._text(key, name): self._text(key, item) for name, item in value.items()}

    def keys(self, key: str) -> tuple[str, ...]:
        """The keys of an object whose values say nothing: how Docker writes a set."""
        value = self._value.get(key)
        if value is None:
            return ()
        return tuple(self._text(key, item) for item in Document(value, key)._value)  # noqa: SLF001  # one of our own

    def within(self, key: str) -> Document:
        value = self._value.get(key)
        return Document({} if value is None else value, key)

    def each(self, key: str) -> Iterator[Document]:
        for item in self._list(key):
            yield Document(item, key)

    def _list(self, key: str) -> list[object]:
        value = self._value.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise refused(f"{key} in {self._where} is no list")
        return value


def is_whole(value: str) -> bool:
    """Whether a program can be given it."""
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def parsed(data: bytes, where: str) -> object:
    """Decoded JSON; a key given twice is refused, since readers differ in which they take."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise refused(f"{where} is not JSON") from None


def document(data: bytes, where: str) -> Document:
    return Document(parsed(data, where), where)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a key is given twice"
        raise ValueError(msg)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """One blob, named by its sum."""

    media_type: str
    digest: str
    size: int
    architecture: str = ""
    os: str = ""
    tag: str = ""

    @classmethod
    def read(cls, value: Document, types: tuple[str, ...]) -> Descriptor:
        media_type, digest = value.text("mediaType"), value.text("digest")
        if media_type not in types:
            raise refused(f"a blob of the type {media_type or 'none'} is not taken here")
        if not DIGEST.fullmatch(digest):
            raise refused(f"{digest or 'nothing'} is no sum of a blob; sha256 is taken")
        if value.texts("urls"):
            raise refused("a blob that lies elsewhere")
        platform = value.within("platform")
        return cls(
            media_type=media_type,
            digest=digest,
            size=value.number("size"),
            architecture=platform.text("architecture"),
            os=platform.text("os"),
            tag=value.pairs("annotations").get("org.opencontainers.image.ref.name", ""),
        )

    def to_json(self) -> dict[str, object]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What an image says about how it is run, and the sums of its layers, lowest first."""

    architecture: str
    diff_ids: tuple[str, ...]
    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    exposed: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()

    @classmethod
    def read(cls, data: bytes) -> ImageConfig:
        whole = document(data, "the configuration")
        if whole.text("os") not in {"", "linux"}:
            raise refused(f"an image for {whole.text('os')}")
        diff_ids = whole.within("rootfs").texts("diff_ids")
        if len(diff_ids) > IMAGE_LAYERS_MAX:
            raise refused("it has too many layers")
        if not all(map(DIGEST.fullmatch, diff_ids)):
            raise refused("a layer is not named by its sum")
        made = [step for step in whole.each("history") if not step.flag("empty_layer")]
        if made and len(made) != len(diff_ids):
            raise refused("its history speaks of other layers than it has")
        run = whole.within("config")
        found = cls(
            architecture=whole.text("architecture"),
            diff_ids=diff_ids,
            env=run.texts("Env"),
            entrypoint=run.texts("Entrypoint"),
            cmd=run.texts("Cmd"),
            shell=run.texts("Shell"),
            user=run.text("User"),
            working_dir=run.text("WorkingDir"),
            stop_signal=run.text("StopSignal"),
            labels=run.pairs("Labels"),
            exposed=run.keys("ExposedPorts"),
            volumes=run.keys("Volumes"),
        )
        if found.words_bytes > IMAGE_WORDS_BYTES:
            raise refused(f"it is run by more than {IMAGE_WORDS_BYTES} bytes of words")
        return found

    @property
    def words_bytes(self) -> int:
        """Of what goes into messages: how it is run, without its labels."""
        lists = (self.env, self.entrypoint, self.cmd, self.shell, self.exposed, self.volumes)
        return len(json.dumps([*lists, self.user, self.working_dir, self.stop_signal]))

    def to_json(self) -> bytes:
        """Without times and names of machines: the same image has the same sum."""
        run: dict[str, object] = {
            "Env": list(self.env),
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.cmd),
            "Shell": list(self.shell),
            "User": self.user,
            "WorkingDir": self.working_dir,
            "StopSignal": self.stop_signal,
            "Labels": self.labels,
            "ExposedPorts": {key: {} for key in self.exposed},
            "Volumes": {key: {} for key in self.volumes},
        }
        return dumped(
            {
                "architecture": self.architecture,
                "os": "linux",
                "config": {key: value for key, value in run.items() if value},
                "rootfs": {"type": "layers", "diff_ids": list(self.diff_ids)},
                "history": [{"created_by": "paddock"} for _ in self.diff_ids],
            }
        )


def env_pairs(words: tuple[str, ...]) -> dict[str, str]:
    """Of variables as images have them; what is none of the form K=V is left out."""
    return dict(word.split("=", 1) for word in words if "=" in word)


def digest_of(data: bytes) -> str:
    """As images name their blobs: DIGEST."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def dumped(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
