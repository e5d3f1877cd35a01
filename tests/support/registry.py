"""Packages of a test's own on the registries of its internet: made by the real npm, and wheels made by hand."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """#!/usr/bin/env node
const words = process.argv.slice(2);
if (words.includes("--version")) console.log("demo %s");
else if (words.includes("--help")) console.log("  -p  --full  --model NAME");
else console.log(JSON.stringify(words));
"""
MODULE = """
import json, sys
def main():
    words = sys.argv[1:]
    print("pdemo 1.5" if "--version" in words else "-p --full --model" if "--help" in words else json.dumps(words))
"""


@functools.cache
def usual() -> str:
    """The host that npm asks when nobody says otherwise."""
    words = ["npm", "config", "get", "registry"]
    with tempfile.TemporaryDirectory() as home:  # where it writes logs
        env = {"PATH": os.environ["PATH"], "HOME": home}
        done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
    return str(urlsplit(done.stdout.strip()).hostname)


class Shelf:
    """`internet` is the directory of a test's internet."""

    def __init__(self, internet: Path, scratch: Path) -> None:
        self.root = internet / "packages"
        self._scratch = scratch

    def npm(
        self,
        name: str,
        *versions: str,
        host: str = "",
        under: str = "",
        script: str = "",
        files: str = "",
    ) -> None:
        """A package whose one program is named as it is; `script` runs after its install, where scripts run.

        Its files may lie on another host than the registry.
        """
        host = host or usual()
        place, shelf = self.root / host / under, self.root / (files or host) / under
        for directory in (place, shelf):
            directory.mkdir(parents=True, exist_ok=True)
        rows = {}
        for version in versions:
            tarball = self._packed(name, version, script)
            data = tarball.read_bytes()
            shutil.copy(tarball, shelf / tarball.name)
            manifest = json.loads((self._scratch / name / "package.json").read_text())
            url = f"https://{files or host}/{under}{tarball.name}"
            sha512 = base64.b64encode(hashlib.sha512(data).digest()).decode()
            dist = {"tarball": url, "integrity": f"sha512-{sha512}", "shasum": hashlib.sha1(data).hexdigest()}
            rows[version] = {**manifest, "dist": dist}
        index = {"name": name, "dist-tags": {"latest": versions[-1]}, "versions": rows}
        (place / name).write_text(json.dumps(index))

    def _packed(self, name: str, version: str, script: str) -> Path:
        source = self._scratch / name
        source.mkdir(exist_ok=True)
        (source / "cli.js").write_text(PROGRAM % version)
        (source / "cli.js").chmod(0o755)
        scripts = {"scripts": {"postinstall": script}} if script else {}
        manifest = {"name": name, "version": version, "bin": {name: "cli.js"}, **scripts}
        (source / "package.json").write_text(json.dumps(manifest))
        env = {"PATH": os.environ["PATH"], "HOME": str(self._scratch)}
        subprocess.run(["npm", "pack", "--silent"], cwd=source, env=env, check=True, capture_output=True)
        return source / f"{name}-{version}.tgz"

    def wheel(self, name: str, version: str) -> None:
        """On an index that has its files on another host, as PyPI has."""
        files = self.root / "wheels.pythonhosted.org"
        files.mkdir(parents=True, exist_ok=True)
        wheel = files / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}.py", MODULE)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
            archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/RECORD,,\n")
        index = self.root / "pypi.org/simple" / name
        index.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        link = f"https://wheels.pythonhosted.org/{wheel.name}#sha256={digest}"
        (index / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{link}">{wheel.name}</a></body></html>')
