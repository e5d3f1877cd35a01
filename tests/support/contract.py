"""What every box holds, whatever isolates it: the kinds of boxes, and the tests that one kind alone is asked.

A module of tests says for which kinds it is: `ENGINES = contract.FULL`, `WITH_GVISOR` for what another kernel may do
its own way, or `CORE` for what any runtime may. Its tests then run once for each kind: whatever installation they use,
all boxes are made of that kind.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from paddock.engines.container import ids
from paddock.model import BoxRequest, EngineName
from tests.support import roots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

PROCESS: Final = "process"
FULL: Final = (PROCESS, "crun")
WITH_GVISOR: Final = (*FULL, "runsc")  # where the caller has ids: with one it is asked CORE alone
CORE: Final = (PROCESS, "crun", "runc", "runsc")
CONTAINERS: Final = CORE[1:]
_WHOSE_IDS: Final = ("tests/adversarial/", "tests/network/", "tests/boxes/test_checkpoint")
_WORDS: Final = "tests/adversarial/test_spec.py"  # what may be asked for is decided before there are ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What makes a box of this kind; of a process box nothing does."""

    template: str = ""
    runtime: str = ""

    @property
    def name(self) -> str:
        return self.runtime or PROCESS

    def options(self) -> tuple[str, ...]:
        return ("-t", self.template, "--runtime", self.runtime) if self.template else ()

    def of(self, request: BoxRequest) -> BoxRequest:
        if not self.template or request.template:
            return request
        return replace(request, engine=EngineName.CONTAINER, template=self.template, runtime=self.runtime)

    def applied(self, args: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a verb; those that make a box have a request."""
        request = args.get("request")
        return {**args, "request": self.of(request)} if isinstance(request, BoxRequest) else args


_current = Kind()


def current() -> Kind:
    """Of the test that runs."""
    return _current


def own_kernel() -> bool:
    """Then what a call says is that kernel's word, and what counts is what the host has of it."""
    return _current.runtime == "runsc"


def being(kind: Kind) -> Iterator[None]:
    global _current  # noqa: PLW0603  one test runs at a time
    _current = kind
    yield
    _current = Kind()


def parametrize(metafunc: pytest.Metafunc) -> None:
    wanted = getattr(metafunc.module, "ENGINES", ())
    name = f"{metafunc.module.__name__.replace('.', '/')}.py::{metafunc.function.__name__}"
    left_out = {"runsc"} if wanted == WITH_GVISOR and ids.of_caller(0).count == 1 else set()
    kinds = [kind for kind in wanted if kind not in left_out and not any(row.is_of(name, kind) for row in EXCEPT)]
    if wanted:
        import pytest  # not for `./bench`, which has installations too

        is_alike = wanted == FULL and (name.startswith(_WORDS) or not name.startswith(_WHOSE_IDS))
        marked = [pytest.mark.container, *([pytest.mark.alike] if is_alike else [])]
        marks = dict.fromkeys(CONTAINERS, marked)
        params = [pytest.param(kind, marks=marks.get(kind, [])) for kind in kinds]
        metafunc.parametrize("box_kind", params, indirect=True, scope="function")


def find(name: str, root: Path) -> Kind:
    if name not in roots.installed():
        import pytest

        pytest.skip(f"no {name} on this machine")
    return Kind(template=str(root), runtime=name)


def needs(program: str) -> None:
    """Skips the test where its boxes' root, a small one, has no such program."""
    name = program.rpartition("/")[2]
    if _current.template and not os.path.exists(f"{_current.template}/usr/bin/{name}"):
        import pytest

        pytest.skip(f"the root of the test's boxes has no {name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Tests, or a whole module of them, that are not for some kinds of boxes."""

    test: str
    why: str
    kinds: tuple[str, ...] = CONTAINERS

    def is_of(self, name: str, kind: str) -> bool:
        return kind in self.kinds and name in {self.test, f"tests/{self.test}"}


_OWN_ROOT = "its root is its own: whoever is root there may write to it, and it is no part of the host"
_ROOT_INSIDE = (
    "root in a container has capabilities over the box's own ids; tests/boxes/test_containers.py has the rest"
)
_NO_TOOLCHAINS = "it has the programs of its image, and none of its caller's"
_STAYS = "its /tmp is a part of its root, which stays as that of any container does"

_NO_BOX = "it starts no box"
_MANY = "it takes a minute, and what looks at the files is the host's own, whoever wrote them"

_RUNSC = ("runsc",)
_LOOPBACK = "gVisor has a loopback of its own: which ports lead out or in is known when it starts"
_OWN_NAMES = (
    "namespaces, chroot and mounts of its own kernel are its own: what is closed to it is mounted below that, outside; "
    "tests/boxes/test_gvisor.py tries it from there"
)
_OWN_STACK = (
    "its network stack is its own, with no address but two; tests/engines/container/test_link.py attacks from its end"
)
_LOOKED_UP = "gVisor remembers what it has looked up of an overlay until the box is started anew"

# Tests whose subject a container has not, and why. tests/style/test_contract.py looks whether they are there.
EXCEPT: Final = (
    Row(test="adversarial/test_workspace_files.py::test_a_flood_of_entries_costs_the_daemon_little", why=_MANY),
    Row(test="boxes/test_diff.py::test_a_hundred_thousand_files_of_a_box_are_told_in_bounded_memory", why=_MANY),
    Row(test="adversarial/test_workspace_git.py::test_in_a_plain_copy_the_same_attack_runs", why=_NO_BOX),
    Row(test="adversarial/test_spec.py::test_a_state_directory_that_others_could_replace_is_refused", why=_NO_BOX),
    Row(test="cli/test_copying.py::test_a_side_is_a_box_or_the_host", why=_NO_BOX),
    Row(test="boxes/test_places.py::test_both_temporary_directories_are_one", why=_STAYS),
    Row(test="boxes/test_limits_disk.py::test_files_left_by_the_last_run_do_not_hold_up_the_daemon", why=_STAYS),
    Row(
        test="adversarial/test_files.py::test_a_stopped_boxs_temporary_files_are_gone_when_it_starts_again", why=_STAYS
    ),
    Row(test="boxes/test_tools.py::test_a_program_that_another_box_can_write_is_not_run", why=_NO_TOOLCHAINS),
    Row(
        test="adversarial/test_files.py::test_toolchains_of_the_home_appear_and_their_credentials_do_not",
        why=_NO_TOOLCHAINS,
    ),
    Row(test="adversarial/test_sockets.py::test_sockets_among_the_callers_toolchains_are_covered", why=_NO_TOOLCHAINS),
    Row(
        test="boxes/test_bad_input.py::test_what_is_wrong_is_named_and_nothing_is_created",
        why="`run` alone means the image's own command; words are parsed before there is an engine",
    ),
    Row(test="adversarial/test_files.py::test_the_boxs_system_directories_take_no_new_file", why=_OWN_ROOT),
    Row(test="adversarial/test_spec.py::test_a_working_directory_never_becomes_writable", why=_OWN_ROOT),
    Row(test="client/_sync/test_files.py::test_the_hosts_system_is_not_written", why=_OWN_ROOT),
    Row(test="cli/test_copying.py::test_a_read_only_place_of_the_box_is_named", why=_OWN_ROOT),
    Row(
        test="cli/test_checking.py::test_a_program_is_asked_without_network_and_without_files_of_its_users",
        why=_NO_TOOLCHAINS,
    ),
    Row(test="cli/test_probing.py::test_before_a_run_a_program_is_asked_once", why=_NO_TOOLCHAINS),
    Row(
        test="cli/test_agentruns.py::test_an_agent_that_is_not_there_is_said_with_what_installs_it",
        why="its image may have the agent: what is not there is missed when it is called",
    ),
    Row(test="cli/test_agentruns.py::test_a_changed_definition_changes_the_box", why=_NO_TOOLCHAINS),
    Row(
        test="adversarial/test_network.py::test_nothing_that_names_hosts_can_be_changed",
        why="it may change what its programs ask first; the gateway answers all the same",
    ),
    Row(test="adversarial/test_files.py::test_the_mounts_are_private_to_the_box", why="sudo: its root is not nosuid"),
    Row(test="adversarial/test_files.py::test_only_harmless_devices_exist", why="crun adds the link /dev/core"),
    Row(
        test="adversarial/test_files.py::test_the_first_process_of_the_box_shows_nothing_of_itself",
        why="root may count init's descriptors, and open none of them",
    ),
    Row(
        test="adversarial/test_processes.py::test_nothing_in_the_box_can_lay_hands_on_init",
        why="root may count init's descriptors, and open none of them",
    ),
    Row(
        test="adversarial/test_ownership.py::test_files_of_others_in_the_project_stay_closed",
        why="root in it is the project's owner, who may give a file to a group of their own",
    ),
    Row(test="adversarial/test_processes.py::test_no_capability_can_be_had", why=_ROOT_INSIDE),
    Row(test="adversarial/test_processes.py::test_set_id_programs_of_the_host_give_nothing", why=_ROOT_INSIDE),
    Row(
        test="adversarial/test_processes.py::test_the_kernel_itself_counts_no_further_namespace",
        why="the runtime makes namespaces; the filter refuses them to commands",
    ),
    Row(test="adversarial/test_spec.py::test_exec_never_runs_for_another_user_of_the_box", why="it has other users"),
    Row(test="adversarial/test_spec.py::test_the_isolation_is_what_the_threat_model_asks_for", why=_ROOT_INSIDE),
    Row(test="adversarial/test_spec.py::test_every_way_to_start_a_command_gives_the_same_isolation", why=_ROOT_INSIDE),
    Row(
        test="boxes/test_sealed.py::test_a_port_of_localhost_is_given_and_taken_while_the_box_runs",
        why=_LOOPBACK,
        kinds=_RUNSC,
    ),
    Row(test="adversarial/test_files.py::test_mounting_of_any_kind_is_refused", why=_OWN_NAMES, kinds=_RUNSC),
    Row(
        test="adversarial/test_seal.py::test_no_namespace_is_made_in_which_the_rules_could_be_changed",
        why=_OWN_NAMES,
        kinds=_RUNSC,
    ),
    Row(
        test="adversarial/test_seal.py::test_nobody_takes_the_gateways_sockets_by_binding_beside_them",
        why=_OWN_STACK,
        kinds=_RUNSC,
    ),
    Row(
        test="adversarial/test_seal.py::test_a_connection_from_a_chosen_source_meets_the_gateway_too",
        why=_OWN_STACK,
        kinds=_RUNSC,
    ),
    Row(
        test="adversarial/test_seal.py::test_a_box_that_answers_for_itself_fools_only_itself",
        why=_OWN_STACK,
        kinds=_RUNSC,
    ),
    Row(
        test="adversarial/test_seal.py::test_nobody_takes_the_gateways_sockets_out_of_init",
        why="its init has none: the keeper holds them, outside of its kernel",
        kinds=_RUNSC,
    ),
    Row(
        test="adversarial/test_files.py::test_a_protective_mount_cannot_be_taken_away_from_a_nested_namespace",
        why=_OWN_NAMES,
        kinds=_RUNSC,
    ),
    Row(
        test="adversarial/test_workspace_files.py::test_a_pipe_or_socket_in_any_place_keeps_nobody_waiting",
        why="it makes no pipe in a directory of the host's, and no second name of a socket",
        kinds=_RUNSC,
    ),
    Row(
        test="network/test_evasions.py::test_datagrams_are_refused_at_once",
        why="a datagram is refused behind its own network stack, and no call says so; "
        "adversarial/test_network.py::test_no_route_leads_out waits for answers",
        kinds=_RUNSC,
    ),
    Row(
        test="boxes/test_checkpoints.py::test_what_runs_is_not_disturbed_unless_asked",
        why="what runs in it is kept; tests/boxes/test_memory.py",
        kinds=_RUNSC,
    ),
    Row(
        test="boxes/test_checkpoints.py::test_what_a_home_says_of_itself_hides_nothing_but_its_own",
        why="it takes no attributes of files at all",
        kinds=_RUNSC,
    ),
    Row(
        test="boxes/test_covers.py::test_whatever_the_host_replaces_is_covered_again_by_this_daemon_or_the_next",
        why="a name stays covered in gVisor even while no daemon runs, which is what the test waits to see end",
        kinds=_RUNSC,
    ),
    Row(test="boxes/test_review.py::test_the_next_command_sees_what_the_host_changed", why=_LOOKED_UP, kinds=_RUNSC),
    Row(
        test="boxes/test_review.py::test_a_command_that_runs_goes_on_when_another_lets_the_box_look_again",
        why=_LOOKED_UP,
        kinds=_RUNSC,
    ),
    Row(
        test="boxes/test_review.py::test_a_box_cannot_forge_the_layers_own_marks",
        why="it takes no attributes of files at all",
        kinds=_RUNSC,
    ),
    Row(
        test="boxes/test_review.py::test_a_socket_or_pipe_of_the_host_does_not_answer",
        why="it makes no pipe in a directory of the host's",
        kinds=_RUNSC,
    ),
)
