"""What each tool needs shown for its programs to run, as data: one row per place a tool lives in.

A row shows as little as the programs run with. Managers that are a checkout (pyenv, nvm) are shown whole; a directory
with credentials beside its programs (~/.cargo, ~/.composer) never is. A variable is set when programs in the tree look
for their installation with it; a variable that only says where new things are installed stays unset, so that `pip
install --user` or `uv tool install` write to the box's own home.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Row:
    """`root` and `also` may begin with ~ and hold a * in their last name; everything else is relative to the root."""

    tool: str
    root: str
    shows: tuple[str, ...] = ("",)
    also: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # files to cover that lie deeper than credentials.near_the_top looks


@dataclass(frozen=True, slots=True)
class Layout:
    """A tool installed anywhere, known by a file beside its bin directory."""

    tool: str
    marker: str
    shows: tuple[str, ...] = ("",)


_BREW: Final = (
    *("bin", "sbin", "Cellar", "opt", "lib", "libexec", "include", "share"),
    *("etc/ca-certificates", "etc/openssl@3", "etc/fonts"),
)
_CONDA: Final = ("envs/*/pip.conf", "envs/*/.condarc", "envs/*/etc/npmrc")
_RUSTUP: Final = {"RUSTUP_HOME": "~/.rustup"}

ROWS: Final[tuple[Row, ...]] = (
    # the user's own programs, and what pip install --user put beside them
    Row("local", "~/.local/bin", also=("~/.local/lib/python3*",)),
    Row("local", "~/bin"),
    # node
    Row("nvm", "~/.nvm", env={"NVM_DIR": ""}, secrets=("versions/node/*/etc/npmrc",)),
    Row("nvm", "~/.config/nvm", env={"NVM_DIR": ""}, secrets=("versions/node/*/etc/npmrc",)),
    Row("fnm", "~/.local/share/fnm", env={"FNM_DIR": ""}, secrets=("node-versions/*/installation/etc/npmrc",)),
    Row("fnm", "~/.fnm", env={"FNM_DIR": ""}, secrets=("node-versions/*/installation/etc/npmrc",)),
    Row("volta", "~/.volta", env={"VOLTA_HOME": ""}, secrets=("tools/image/node/*/etc/npmrc",)),
    Row("n", "~/n", env={"N_PREFIX": ""}, secrets=("n/versions/node/*/etc/npmrc",)),
    Row("n", "~/.n", env={"N_PREFIX": ""}, secrets=("n/versions/node/*/etc/npmrc",)),
    Row("nodenv", "~/.nodenv", env={"NODENV_ROOT": ""}, secrets=("versions/*/etc/npmrc",)),
    Row("npm", "~/.npm-global", ("bin", "lib")),
    Row("npm", "~/.npm-packages", ("bin", "lib")),
    Row("npm", "~/.local/lib/node_modules"),
    Row("pnpm", "~/.local/share/pnpm"),
    Row("yarn", "~/.yarn", ("bin", "lib")),
    Row("yarn", "~/.config/yarn/global", ("node_modules",)),
    Row("bun", "~/.bun", ("bin", "install/global")),
    Row("deno", "~/.deno", ("bin",)),
    # python
    Row("pyenv", "~/.pyenv", env={"PYENV_ROOT": ""}, secrets=("versions/*/pip.conf",)),
    Row("uv", "~/.local/share/uv", ("tools", "python")),
    Row("pipx", "~/.local/share/pipx", ("venvs", "shared", "py")),
    Row("pipx", "~/.local/pipx", ("venvs", "shared", "py")),
    Row("poetry", "~/.local/share/pypoetry", ("venv",)),
    Row("conda", "~/miniconda3", secrets=_CONDA),
    Row("conda", "~/anaconda3", secrets=_CONDA),
    Row("conda", "~/miniforge3", secrets=_CONDA),
    Row("conda", "~/mambaforge", secrets=_CONDA),
    Row("conda", "~/micromamba", secrets=_CONDA),
    # several languages
    Row(
        "asdf",
        "~/.asdf",
        env={"ASDF_DIR": "", "ASDF_DATA_DIR": ""},
        secrets=("installs/nodejs/*/etc/npmrc", "installs/python/*/pip.conf"),
    ),
    Row(
        "mise",
        "~/.local/share/mise",
        ("shims", "installs", "plugins"),
        env={"MISE_DATA_DIR": ""},
        secrets=("installs/node/*/etc/npmrc", "installs/python/*/pip.conf"),
    ),
    Row("proto", "~/.proto", ("bin", "shims", "tools", "plugins"), env={"PROTO_HOME": ""}),
    # ruby, perl, php
    Row("rbenv", "~/.rbenv", env={"RBENV_ROOT": ""}),
    Row("rvm", "~/.rvm", env={"rvm_path": ""}),
    Row("chruby", "~/.rubies"),
    Row("perl", "~/perl5", env={"PERL5LIB": "lib/perl5"}),
    Row("composer", "~/.config/composer", ("vendor",)),
    Row("composer", "~/.composer", ("vendor",)),
    # compiled languages
    Row("cargo", "~/.cargo", ("bin",), also=("~/.rustup",), env=_RUSTUP),
    Row("rustup", "~/.rustup", env=_RUSTUP),
    Row("go", "~/go", ("bin",)),
    Row("go", "~/sdk/go*"),
    Row("go", "~/.local/go"),
    Row("goenv", "~/.goenv", env={"GOENV_ROOT": ""}),
    Row("ghcup", "~/.ghcup"),
    Row("cabal", "~/.cabal", ("bin", "store")),
    Row("cabal", "~/.local/state/cabal", ("store",)),
    Row("opam", "~/.opam"),
    Row("elan", "~/.elan", env={"ELAN_HOME": ""}),
    Row("juliaup", "~/.juliaup", ("bin",), also=("~/.julia/juliaup",)),
    Row("swiftly", "~/.local/share/swiftly", env={"SWIFTLY_HOME_DIR": ""}),
    # virtual machines: ~/.dotnet keeps developer certificates with their keys beside the runtime
    Row(
        "sdkman",
        "~/.sdkman",
        ("candidates", "bin", "libexec", "src"),
        env={"SDKMAN_DIR": "", "JAVA_HOME": "candidates/java/current"},
    ),
    Row("jenv", "~/.jenv", env={"JENV_ROOT": ""}),
    Row("dotnet", "~/.dotnet", env={"DOTNET_ROOT": ""}, secrets=("corefx/cryptography/x509stores/*/*",)),
    Row("dart", "~/.pub-cache", ("bin", "global_packages", "hosted")),
    Row("android", "~/Android/Sdk", env={"ANDROID_HOME": ""}),
    # cloud tools
    Row("krew", "~/.krew", ("bin", "store")),
    Row("gcloud", "~/google-cloud-sdk"),
    Row("tfenv", "~/.tfenv"),
    Row("foundry", "~/.foundry", ("bin",)),
    # agents
    Row("claude", "~/.local/share/claude", ("versions",)),
    Row("claude", "~/.claude/local"),
    Row("opencode", "~/.opencode", ("bin",)),
    Row("cursor", "~/.local/share/cursor-agent", ("versions",)),
    # package managers beside the system's; var (databases) and most of etc stay out
    Row("homebrew", "/home/linuxbrew/.linuxbrew", _BREW, env={"HOMEBREW_PREFIX": ""}),
    Row("homebrew", "~/.linuxbrew", _BREW, env={"HOMEBREW_PREFIX": ""}),
    Row("nix", "/nix/store"),
    Row("guix", "/gnu/store"),
)

# The first whose marker exists is used. Whole prefixes only where a file or a directory of the top is needed to run.
LAYOUTS: Final[tuple[Layout, ...]] = (
    Layout("venv", "pyvenv.cfg"),
    Layout("conda", "conda-meta"),
    Layout("node", "lib/node_modules", ("bin", "lib")),
    Layout("java", "lib/modules"),
    Layout("go", "pkg/tool"),
    Layout("maven", "bin/m2.conf"),
    Layout("gradle", "lib/plugins"),
    Layout("ruby", "lib/ruby", ("bin", "lib")),
)
