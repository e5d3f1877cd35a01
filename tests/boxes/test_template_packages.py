"""The usual Dockerfile: root, apt-get install, npm install -g, back to the agent; run, saved, loaded elsewhere, run.

Needs the package mirror and the npm registry that this host has. Skipped, with the reason, where they do not answer.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import ids
from paddock.gateway import trust
from tests.support import bases, roots
from tests.support.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.box,
    pytest.mark.container,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not roots.installed(), reason="no OCI runtime on this machine"),
    pytest.mark.skipif(ids.of_caller(0).count < ids.IDS, reason="packages need subordinate ids"),
]

DOCKERFILE = """\
FROM debian-node:1
USER root
COPY ca.pem /etc/of-the-host.pem
ADD npm.tgz /opt/
RUN ln -s /opt/package/bin/npm-cli.js /usr/local/bin/npm && chmod 755 /opt/package/bin/npm-cli.js
ENV NODE_EXTRA_CA_CERTS=/etc/of-the-host.pem
RUN apt-get update \\
 && apt-get install -y --no-install-recommends jq \\
 && rm -rf /var/lib/apt/lists/*
ARG REGISTRY
RUN npm install -g --no-audit --no-fund --registry=$REGISTRY semver@7.6.3
RUN useradd --create-home --uid 1000 agent \\
 && echo 'agent ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/agent && chmod 0440 /etc/sudoers.d/agent
USER agent
RUN sudo -n sh -c 'echo by-sudo > /etc/by-sudo'
CMD ["sh", "-c", "id -un; jq -n 1+1; semver -r '>1' 2.0.0; cat /etc/by-sudo; sudo -n id -u; stat -c %U /etc/by-sudo"]
"""
SAID = b"agent\n2\n2.0.0\nby-sudo\n0\nroot\n"


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Installation]:
    """A clean machine, as far as Paddock is concerned."""
    (tmp_path / "second").mkdir()
    other = Installation(tmp_path / "second")
    yield other
    other.close()


def test_the_usual_dockerfile_builds_runs_travels_and_runs(
    own_installation: Installation, second: Installation, tmp_path: Path
) -> None:
    try:
        image, ways, registry = bases.image(), bases.ways(), bases.registry()
        npm = bases.npm(tmp_path)
    except bases.NotMade as reason:
        pytest.skip(str(reason))
    one = own_installation
    loaded = one.cli("template", "load", str(image), timeout_s=300)
    assert loaded.returncode == 0, loaded.stderr
    context = tmp_path / "context"
    context.mkdir()
    npm.rename(context / "npm.tgz")
    shutil.copy(str(trust.host_bundle_path()), context / "ca.pem")
    (context / "Dockerfile").write_text(DOCKERFILE)
    words = ("template", "build", "-t", "my-team:v1", "--build-arg", f"REGISTRY={registry}", *ways, str(context))
    built = one.cli(*words, timeout_s=600)
    assert built.returncode == 0, built.stderr.decode()[-4000:]
    ran = one.cli("run", "-t", "my-team:v1")
    assert (ran.stdout, ran.returncode) == (SAID, 0), ran.stderr
    file = tmp_path / "my-team.tar"
    saved = one.cli("template", "save", "my-team:v1", "-o", str(file), timeout_s=300)
    assert saved.returncode == 0, saved.stderr
    loaded = second.cli("template", "load", str(file), timeout_s=300)
    assert loaded.returncode == 0, loaded.stderr
    again = second.cli("run", "-t", "my-team:v1")
    assert (again.stdout, again.returncode) == (SAID, 0), again.stderr
    refused = second.cli("template", "build", "-t", "x", "--no-cache", str(_only_apt(context)), timeout_s=300)
    assert refused.returncode == 2, "without the options nothing is reached"
    assert b"its policy refused" in refused.stderr, refused.stderr


def _only_apt(context: Path) -> Path:
    (context / "Dockerfile").write_text("FROM my-team:v1\nUSER root\nRUN apt-get update --error-on=any\n")
    return context
