"""The SDK's templates on blocking calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from tests.runtime.test_loading import LAYER, image, put

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.client import Paddock


@pytest.mark.box
def test_a_template_comes_in_goes_out_and_goes(paddock: Paddock, tmp_path: Path) -> None:
    (info,) = paddock.templates.load(put(tmp_path, image(LAYER)))
    out = tmp_path / "out.tar"
    paddock.templates.save(info.name, str(out))
    first = out.read_bytes()
    paddock.templates.save(info.name, str(out))
    assert out.read_bytes() == first
    paddock.templates.remove(info.name)
    with pytest.raises(UserError, match="there is no template team:v1"):
        paddock.templates.save(info.name, str(out))
    assert out.read_bytes() == first
    assert sorted(path.name for path in tmp_path.glob("*.tar")) == ["image.tar", "out.tar"]
