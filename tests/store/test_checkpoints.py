"""Checkpoints, and restores."""

from __future__ import annotations

import dataclasses

from paddock.store import CheckpointRow, Store, now
from tests.store.rows import add, spec


def test_layers_are_named_as_long_as_a_box_or_a_checkpoint_is_made_of_them(path: str) -> None:
    store = Store(path)
    one = add(store, "one", spec("one", layers=("/dir", "frozen:a")))
    add(store, "other", spec("other", home_layers=("frozen:b",)))
    assert store.layers() == {"/dir", "frozen:a", "frozen:b"}
    made = CheckpointRow(
        id="c",
        box=one.id,
        name="n",
        created_at=now(),
        storage="frozen:s",
        root=("/dir", "frozen:c"),
        home=("frozen:h",),
    )
    store.add_checkpoint(made)
    assert store.layers() == {"/dir", "frozen:a", "frozen:b", "frozen:c", "frozen:h", "frozen:s"}
    store.set_spec(one, dataclasses.replace(one.spec, layers=("/dir",)))
    assert "frozen:a" not in store.layers()
    store.finish_checkpoint("c")
    assert store.checkpoints() == [dataclasses.replace(made, is_whole=True)]
    assert (made.last, made.layers) == ("frozen:h", ("/dir", "frozen:c", "frozen:h", "frozen:s"))
    store.set_chain("gone", "home", ("frozen:h",), ("frozen:m",))
    store.set_chain("c", "home", ("frozen:was",), ("frozen:m",))
    store.set_chain("c", "home", store.checkpoints()[0].home, ("frozen:h",))
    assert "frozen:m" not in store.layers()
    store.begin_restore(one.id, "c")
    store.begin_restore(one.id, "c")
    assert store.restores() == {"one": "c"}
    store.end_restore(one.id)
    store.remove(one.id)
    assert (store.layers(), store.checkpoints()) == ({"frozen:b"}, [])
    store.close()
