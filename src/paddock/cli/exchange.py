"""policy export|import."""

from __future__ import annotations

import sys

from paddock.cli.policy import target
from paddock.client import Paddock
from paddock.errors import UserError
from paddock.limits import POLICY_FILE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def export(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        sys.stdout.write(paddock.policy.export(options.box, options.format))
    return 0


def import_(options: argparse.Namespace) -> int:
    box = target(options)
    content = _read(options.file)
    with Paddock() as paddock:
        for line in paddock.policy.import_(content, options.file, box=box, layout=options.format):
            print(line)
    return 0


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(POLICY_FILE_BYTES + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(POLICY_FILE_BYTES + 1)
        if len(data) > POLICY_FILE_BYTES:
            raise UserError(f"{name} is over {POLICY_FILE_BYTES // 1024} KiB", code="bad-policy")
        return data.decode("utf-8")
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}", hint="check the path", code="no-file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 text", code="bad-policy") from error
