"""Repositories a secret is limited to: which requests of git over HTTPS, and of the host's API, are within them.

A request outside the scope is not forbidden as such; it must not carry the secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paddock.policy.urlpath import Ambiguous, readings

_READS: Final = frozenset({"GET", "HEAD"})
_API_HOSTS: Final = ("api.", "uploads.")  # of GitHub, where a repository is below /repos/
_API: Final = "/repos/"
_PROJECTS: Final = "/api/v4/projects/"  # of GitLab, where its path has %2F between its parts


@dataclass(frozen=True, slots=True, kw_only=True)
class GitScope:
    """`repos` are `owner/name`, as the host spells them."""

    repos: tuple[str, ...]
    write: bool = False

    def covers(self, host: str, method: str, target: str) -> bool:
        """Whether this request is about one of the repositories and no more than reads it, unless `write`."""
        path, _, query = target.partition("?")
        try:
            read = readings(path)
        except Ambiguous:
            return False
        return any(self._is_project(method, read[-1], repo) for repo in self.repos) or any(
            all(self._within(host, method, each, query, repo) for each in read) for repo in self.repos
        )

    def _within(self, host: str, method: str, path: str, query: str, repo: str) -> bool:
        if host.startswith(_API_HOSTS):
            return self._is_below(_API + repo, path) and (self.write or method in _READS)
        for stem in (f"/{repo}", f"/{repo}.git"):
            if self._is_below(stem, path):
                return self._is_git(method, path.removeprefix(stem), query)
        return False

    def _is_project(self, method: str, path: str, repo: str) -> bool:
        stem = _PROJECTS + repo.replace("/", "%2F")
        return self._is_below(stem, path) and (self.write or method in _READS)

    @staticmethod
    def _is_below(stem: str, path: str) -> bool:
        return path == stem or path.startswith(stem + "/")

    def _is_git(self, method: str, rest: str, query: str) -> bool:
        if rest == "/info/refs":  # which of the two services decides whether it begins a push
            return method in _READS and (query == "service=git-upload-pack" or self.write)
        if rest == "/git-upload-pack":
            return method == "POST"
        return method in _READS if rest != "/git-receive-pack" and not self.write else self.write
