"""The whole of the store."""

from __future__ import annotations

import random

from paddock.model import BoxId
from paddock.store import CheckpointRow, Store, TemplateRow, now
from tests.store.rows import add, spec


def test_a_layer_is_named_as_long_as_anything_is_made_of_it(store: Store) -> None:
    box = add(store, "aa", spec(layers=("sha256:box", "sha256:shared")))
    store.add_checkpoint(CheckpointRow(id="c", box=box.id, name="n", created_at=now(), home=("frozen:checkpoint",)))
    store.add_template(TemplateRow(name="t", tag="v1", chain=("sha256:template", "sha256:shared"), config="{}"))
    store.cache("key", "frozen:step")
    shared = {"sha256:shared"}
    assert store.layers() == shared | {"sha256:box", "frozen:checkpoint", "sha256:template", "frozen:step"}
    store.remove("aa")
    assert store.layers() == shared | {"sha256:template", "frozen:step"}
    assert store.remove_template("t", "v1")
    assert store.layers() == {"frozen:step"}
    assert store.drop_cache("9999") == 1
    assert store.layers() == set()


def test_over_many_changes_the_layers_are_those_of_what_there_is(path: str) -> None:
    """A model beside it: what is made of which layers, and the store opened anew now and then."""
    chance = random.Random(7)
    store = Store(path)
    model: dict[tuple[str, str], set[str]] = {}
    for step in range(400):
        layers = tuple(f"sha256:{chance.randrange(30)}" for _ in range(chance.randrange(1, 4)))
        number = str(chance.randrange(6))
        match chance.choice(["box", "template", "step", "checkpoint", "unbox", "untemplate", "uncheckpoint", "again"]):
            case "box" if ("box", number) not in model:
                add(store, number, spec(f"n{number}", layers=layers))
                model["box", number] = {*layers}
            case "template":
                row = TemplateRow(name="t", tag=number, chain=layers, config="{}")
                store.add_template(row, replacing=True)
                model["template", number] = {*layers}
            case "step":
                store.cache(number, layers[0])
                model["step", number] = {layers[0]}
            case "checkpoint" if ("box", number) in model:
                made = CheckpointRow(
                    id=f"{number}.{step}", box=BoxId(number), name=str(step), created_at=now(), home=layers
                )
                store.add_checkpoint(made)
                model[f"checkpoint {number}", made.id] = {*layers}
            case "unbox":
                store.remove(number)
                own = f"checkpoint {number}"
                model = {key: value for key, value in model.items() if key != ("box", number) and key[0] != own}
            case "untemplate":
                assert store.remove_template("t", number) == (("template", number) in model)
                model.pop(("template", number), None)
            case "uncheckpoint":
                for key in [key for key in model if key[0] == f"checkpoint {number}"][:1]:
                    store.remove_checkpoint(key[1])
                    del model[key]
            case "again":
                store.close()
                store = Store(path, is_first=False)
            case _:
                pass
        assert store.layers() == set().union(*model.values())
    assert len(store.templates()) == sum(kind == "template" for kind, _ in model)
    store.close()
