"""Tools as they are installed in reality, and what of each a box is shown: the data of test_toolchains.py."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One tool as it is installed in reality; all paths below the home."""

    path: tuple[str, ...]
    files: tuple[str, ...]
    trees: tuple[str, ...]
    links: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "nvm": Case(
        path=(".nvm/versions/node/v20.1.0/bin",),
        files=(
            ".nvm/nvm.sh",
            ".nvm/versions/node/v20.1.0/bin/node",
            ".nvm/versions/node/v20.1.0/lib/node_modules/a.js",
        ),
        links={".nvm/versions/node/v20.1.0/bin/npm": "../lib/node_modules/npm/bin/npm-cli.js"},
        secrets=(".nvm/versions/node/v20.1.0/etc/npmrc", ".nvm/.npmrc", ".npmrc"),
        trees=(".nvm",),
        covers=(".nvm/.npmrc", ".nvm/versions/node/v20.1.0/etc/npmrc"),
        env={"NVM_DIR": ".nvm"},
    ),
    "fnm": Case(
        path=(".local/state/fnm_multishells/1_2/bin", ".local/share/fnm"),
        files=(".local/share/fnm/fnm", ".local/share/fnm/node-versions/v20/installation/bin/node"),
        links={".local/state/fnm_multishells/1_2": "~/.local/share/fnm/node-versions/v20/installation"},
        secrets=(".local/share/fnm/node-versions/v20/installation/etc/npmrc",),
        trees=(".local/share/fnm", ".local/state/fnm_multishells/1_2/bin"),
        covers=(".local/share/fnm/node-versions/v20/installation/etc/npmrc",),
        env={"FNM_DIR": ".local/share/fnm"},
    ),
    "volta": Case(
        path=(".volta/bin",),
        files=(".volta/bin/volta-shim", ".volta/tools/image/node/20/bin/node"),
        links={".volta/bin/node": "volta-shim"},
        secrets=(".volta/tools/image/node/20/etc/npmrc",),
        trees=(".volta",),
        covers=(".volta/tools/image/node/20/etc/npmrc",),
        env={"VOLTA_HOME": ".volta"},
    ),
    "n": Case(
        path=("n/bin",),
        files=("n/bin/node", "n/n/versions/node/20/bin/node"),
        secrets=("n/etc/npmrc", "n/n/versions/node/20/etc/npmrc"),
        trees=("n",),
        covers=("n/etc/npmrc", "n/n/versions/node/20/etc/npmrc"),
        env={"N_PREFIX": "n"},
    ),
    "npm": Case(
        path=(".npm-global/bin",),
        files=(".npm-global/lib/node_modules/tool/cli.js",),
        links={".npm-global/bin/tool": "../lib/node_modules/tool/cli.js"},
        secrets=(".npm-global/etc/npmrc", ".npmrc"),
        trees=(".npm-global/bin", ".npm-global/lib"),
    ),
    "npm in ~/.local": Case(
        path=(".local/bin",),
        files=(".local/lib/node_modules/tool/cli.js",),
        links={".local/bin/tool": "../lib/node_modules/tool/cli.js"},
        secrets=(".local/etc/npmrc", ".local/lib/other/credentials"),
        trees=(".local/bin", ".local/lib/node_modules"),
    ),
    "pnpm": Case(
        path=(".local/share/pnpm",),
        files=(".local/share/pnpm/pnpm", ".local/share/pnpm/global/5/node_modules/a.js"),
        secrets=(".config/pnpm/rc", ".local/share/pnpm/.npmrc"),
        trees=(".local/share/pnpm",),
        covers=(".local/share/pnpm/.npmrc",),
    ),
    "yarn": Case(
        path=(".yarn/bin", ".config/yarn/global/node_modules/.bin"),
        files=(".yarn/bin/yarn", ".yarn/lib/cli.js", ".config/yarn/global/node_modules/.bin/tool"),
        secrets=(".yarnrc", ".config/yarn/global/.npmrc", ".yarn/berry/.yarnrc.yml"),
        trees=(".config/yarn/global/node_modules", ".yarn/bin", ".yarn/lib"),
    ),
    "bun": Case(
        path=(".bun/bin",),
        files=(".bun/bin/bun", ".bun/install/global/node_modules/a.js"),
        secrets=(".bunfig.toml", ".bun/install/cache/token"),
        trees=(".bun/bin", ".bun/install/global"),
    ),
    "deno": Case(path=(".deno/bin",), files=(".deno/bin/deno",), secrets=(".deno/auth.json",), trees=(".deno/bin",)),
    "pyenv": Case(
        path=(".pyenv/shims", ".pyenv/bin"),
        files=(".pyenv/shims/python", ".pyenv/bin/pyenv", ".pyenv/versions/3.12/bin/python"),
        secrets=(".pyenv/versions/3.12/pip.conf", ".config/pip/pip.conf", ".pyenv/.git/config"),
        trees=(".pyenv",),
        covers=(".pyenv/.git/config", ".pyenv/versions/3.12/pip.conf"),
        env={"PYENV_ROOT": ".pyenv"},
    ),
    "uv": Case(
        path=(".local/bin",),
        files=(
            *(".local/bin/uv", ".local/share/uv/tools/ruff/bin/ruff"),
            ".local/share/uv/python/cpython-3.12/bin/python3.12",
        ),
        links={
            ".local/bin/ruff": "~/.local/share/uv/tools/ruff/bin/ruff",
            ".local/share/uv/tools/ruff/bin/python": "~/.local/share/uv/python/cpython-3.12/bin/python3.12",
        },
        secrets=(".local/share/uv/credentials/credentials.toml", ".config/uv/uv.toml"),
        trees=(".local/bin", ".local/share/uv/python", ".local/share/uv/tools"),
    ),
    "pipx": Case(
        path=(".local/bin",),
        files=(".local/share/pipx/venvs/black/bin/black", ".pyenv/versions/3.11/bin/python3.11"),
        links={
            ".local/bin/black": "~/.local/share/pipx/venvs/black/bin/black",
            ".local/share/pipx/venvs/black/bin/python": "python3",
            ".local/share/pipx/venvs/black/bin/python3": "~/.pyenv/versions/3.11/bin/python3.11",
        },
        secrets=(".local/share/pipx/.env", ".pypirc"),
        trees=(".local/bin", ".local/share/pipx/venvs", ".pyenv"),
        env={"PYENV_ROOT": ".pyenv"},
    ),
    "pip --user": Case(
        path=(".local/bin",),
        files=(".local/bin/flask", ".local/lib/python3.11/site-packages/flask/__init__.py"),
        secrets=(".local/lib/app/token", ".local/share/keyrings/login.keyring"),
        trees=(".local/bin", ".local/lib/python3.11"),
    ),
    "poetry": Case(
        path=(".local/bin",),
        files=(".local/share/pypoetry/venv/bin/poetry",),
        links={".local/bin/poetry": "~/.local/share/pypoetry/venv/bin/poetry"},
        secrets=(".config/pypoetry/auth.toml", ".local/share/pypoetry/auth.toml"),
        trees=(".local/bin", ".local/share/pypoetry/venv"),
    ),
    "conda": Case(
        path=("miniconda3/envs/work/bin", "miniconda3/condabin"),
        files=("miniconda3/condabin/conda", "miniconda3/envs/work/bin/python", "miniconda3/ssl/cacert.pem"),
        secrets=("miniconda3/.condarc", "miniconda3/envs/work/pip.conf", ".condarc"),
        trees=("miniconda3",),
        covers=("miniconda3/.condarc", "miniconda3/envs/work/pip.conf"),
    ),
    "asdf": Case(
        path=(".asdf/shims", ".asdf/bin"),
        files=(".asdf/shims/node", ".asdf/bin/asdf", ".asdf/installs/nodejs/20/bin/node"),
        secrets=(".asdf/installs/nodejs/20/etc/npmrc", ".asdf/installs/python/3/pip.conf"),
        trees=(".asdf",),
        covers=(".asdf/installs/nodejs/20/etc/npmrc", ".asdf/installs/python/3/pip.conf"),
        env={"ASDF_DIR": ".asdf", "ASDF_DATA_DIR": ".asdf"},
    ),
    "mise": Case(
        path=(".local/share/mise/installs/node/20/bin",),
        files=(".local/share/mise/installs/node/20/bin/node", ".local/share/mise/shims/node"),
        secrets=(".config/mise/config.toml", ".local/share/mise/installs/node/20/etc/npmrc"),
        trees=(".local/share/mise/installs", ".local/share/mise/shims"),
        covers=(".local/share/mise/installs/node/20/etc/npmrc",),
        env={"MISE_DATA_DIR": ".local/share/mise"},
    ),
    "rbenv": Case(
        path=(".rbenv/shims",),
        files=(".rbenv/shims/ruby", ".rbenv/versions/3.3/bin/ruby"),
        secrets=(".gem/credentials", ".rbenv/.git/config"),
        trees=(".rbenv",),
        covers=(".rbenv/.git/config",),
        env={"RBENV_ROOT": ".rbenv"},
    ),
    "composer": Case(
        path=(".config/composer/vendor/bin",),
        files=(".config/composer/vendor/bin/phpunit",),
        secrets=(".config/composer/auth.json",),
        trees=(".config/composer/vendor",),
    ),
    "cargo": Case(
        path=(".cargo/bin",),
        files=(".cargo/bin/rustup", ".rustup/toolchains/stable/bin/rustc"),
        links={".cargo/bin/cargo": "rustup"},
        secrets=(".cargo/credentials.toml", ".cargo/credentials", ".cargo/config.toml"),
        trees=(".cargo/bin", ".rustup"),
        env={"RUSTUP_HOME": ".rustup"},
    ),
    "go": Case(
        path=("go/bin", "sdk/go1.22.1/bin"),
        files=("go/bin/gopls", "sdk/go1.22.1/bin/go", "sdk/go1.22.1/src/fmt/print.go"),
        secrets=("go/src/private/.env", "sdk/other/token"),
        trees=("go/bin", "sdk/go1.22.1"),
    ),
    "sdkman": Case(
        path=(".sdkman/candidates/java/current/bin",),
        files=(".sdkman/candidates/java/17-tem/bin/java",),
        links={".sdkman/candidates/java/current": "17-tem"},
        secrets=(".sdkman/etc/credentials", ".m2/settings.xml"),
        trees=(".sdkman/candidates",),
        env={"SDKMAN_DIR": ".sdkman", "JAVA_HOME": ".sdkman/candidates/java/current"},
    ),
    "dotnet": Case(
        path=(".dotnet", ".dotnet/tools"),
        files=(".dotnet/dotnet", ".dotnet/tools/ef", ".dotnet/shared/lib.dll"),
        secrets=(".dotnet/corefx/cryptography/x509stores/my/ABC.pfx", ".nuget/NuGet/NuGet.Config"),
        trees=(".dotnet",),
        covers=(".dotnet/corefx/cryptography/x509stores/my/ABC.pfx",),
        env={"DOTNET_ROOT": ".dotnet"},
    ),
    "krew": Case(
        path=(".krew/bin",),
        files=(".krew/store/ctx/v1/kubectl-ctx",),
        links={".krew/bin/kubectl-ctx": "~/.krew/store/ctx/v1/kubectl-ctx"},
        secrets=(".kube/config", ".krew/index/token"),
        trees=(".krew/bin", ".krew/store"),
    ),
    "claude": Case(
        path=(".local/bin",),
        files=(".local/share/claude/versions/2.1.0",),
        links={".local/bin/claude": "~/.local/share/claude/versions/2.1.0"},
        secrets=(".claude/.credentials.json", ".claude.json", ".local/share/claude/auth.json"),
        trees=(".local/bin", ".local/share/claude/versions"),
    ),
    "opencode": Case(
        path=(".opencode/bin",),
        files=(".opencode/bin/opencode",),
        secrets=(".local/share/opencode/auth.json", ".opencode/auth.json"),
        trees=(".opencode/bin",),
    ),
    "homebrew": Case(
        path=(".linuxbrew/bin",),
        files=(".linuxbrew/Cellar/jq/1.7/bin/jq", ".linuxbrew/opt/jq/LICENSE", ".linuxbrew/lib/libjq.so"),
        links={".linuxbrew/bin/jq": "../Cellar/jq/1.7/bin/jq"},
        secrets=(".linuxbrew/etc/npmrc", ".linuxbrew/var/postgresql@16/base/1", ".linuxbrew/etc/gitconfig"),
        trees=(".linuxbrew/Cellar", ".linuxbrew/bin", ".linuxbrew/lib", ".linuxbrew/opt"),
        env={"HOMEBREW_PREFIX": ".linuxbrew"},
    ),
    "a virtual environment": Case(
        path=("envs/work/bin",),
        files=("envs/work/pyvenv.cfg", "envs/work/bin/pip", ".pyenv/versions/3.12/bin/python3.12"),
        links={"envs/work/bin/python": "~/.pyenv/versions/3.12/bin/python3.12"},
        secrets=("envs/other/.env",),
        trees=(".pyenv", "envs/work"),
        env={"PYENV_ROOT": ".pyenv"},
    ),
    "node anywhere": Case(
        path=("tools/node-v20/bin",),
        files=("tools/node-v20/bin/node", "tools/node-v20/lib/node_modules/npm/a.js"),
        secrets=("tools/node-v20/etc/npmrc",),
        trees=("tools/node-v20/bin", "tools/node-v20/lib"),
    ),
    "java anywhere": Case(
        path=("jdks/17/bin",),
        files=("jdks/17/bin/java", "jdks/17/lib/modules", "jdks/17/conf/net.properties"),
        secrets=("jdks/token",),
        trees=("jdks/17",),
    ),
    "own programs": Case(
        path=("bin", "scripts"),
        files=("bin/hello", "scripts/deploy"),
        secrets=("bin/.netrc", "scripts-private/token"),
        trees=("bin", "scripts"),
        covers=("bin/.netrc",),
    ),
}


# Places outside every home, on a machine of their own: files, links, a PATH, and what it comes to.
PLACES: dict[str, tuple[tuple[str, ...], dict[str, str], str, tuple[str, ...], str]] = {
    "a prefix in /opt": (
        ("opt/node/bin/node", "opt/node/share/x"),
        {},
        "/opt/node/bin",
        ("/opt/node",),
        "/opt/node/bin",
    ),
    "/opt/bin is no prefix": (("opt/bin/tool", "opt/app/data"), {}, "/opt/bin", ("/opt/bin",), "/opt/bin"),
    "a version in /opt": (
        ("opt/node-20/bin/node",),
        {"opt/node": "node-20"},
        "/opt/node/bin",
        ("/opt/node", "/opt/node-20"),
        "/opt/node/bin",
    ),
    "a link from /opt into the home": (("home/u/notes/bin/x",), {"opt/x": "/home/u/notes"}, "/opt/x/bin", (), ""),
    "a link from /usr": (
        ("opt/go/bin/go", "opt/go/pkg/tool/x"),
        {"usr/local/go": "/opt/go"},
        "/usr/local/go/bin",
        ("/opt/go",),
        "/usr/local/go/bin",
    ),
    "a program in /usr/local/bin that lives in /opt": (
        ("opt/microsoft/powershell/7/pwsh",),
        {"usr/local/bin/pwsh": "/opt/microsoft/powershell/7/pwsh"},
        "/usr/local/bin",
        ("/opt/microsoft/powershell/7",),
        "/usr/local/bin",
    ),
    "a program in /usr/local/bin that lives in the home": (
        ("home/u/notes/run",),
        {"usr/local/bin/run": "/home/u/notes/run"},
        "/usr/local/bin",
        (),
        "/usr/local/bin",
    ),
    "a profile of Nix": (
        ("nix/store/hash-env/bin/hello",),
        {"nix/var/profile": "/nix/store/hash-env", "home/u/.nix-profile": "/nix/var/profile"},
        "/home/u/.nix-profile/bin",
        ("/nix/store",),
        "/nix/store/hash-env/bin",
    ),
    "a profile of Nix in /etc": (
        ("nix/store/hash-env/bin/hello",),
        {"etc/profiles/u": "/nix/store/hash-env"},
        "/etc/profiles/u/bin",
        ("/nix/store",),
        "/nix/store/hash-env/bin",
    ),
    "a shell of fnm in /run": (
        ("home/u/.local/share/fnm/node-versions/v20/installation/bin/node",),
        {"run/user/1/fnm_multishells/2": "/home/u/.local/share/fnm/node-versions/v20/installation"},
        "/run/user/1/fnm_multishells/2/bin",
        ("/home/u/.local/share/fnm",),
        "/home/u/.local/share/fnm/node-versions/v20/installation/bin",
    ),
    "a link in /run to what is no tool": (("home/u/notes/x",), {"run/x": "/home/u/notes"}, "/run/x", (), ""),
    "homebrew": (
        ("home/linuxbrew/.linuxbrew/bin/jq", "home/linuxbrew/.linuxbrew/var/db"),
        {},
        "/home/linuxbrew/.linuxbrew/bin",
        ("/home/linuxbrew/.linuxbrew/bin",),
        "/home/linuxbrew/.linuxbrew/bin",
    ),
    "an environment made with a Python in /opt": (
        ("srv/x/.venv/pyvenv.cfg", "opt/py/bin/python3", "opt/py/lib/python3.12/os.py", "opt/py/etc/secret"),
        {"srv/x/.venv/bin/python": "/opt/py/bin/python3"},
        "/srv/x/.venv/bin",
        ("/opt/py/bin", "/opt/py/lib", "/srv/x/.venv"),
        "/srv/x/.venv/bin",
    ),
    "an environment whose python was made a link to a program in /opt": (
        ("srv/x/.venv/pyvenv.cfg", "opt/app/bin/serve", "opt/app/etc/app.conf"),
        {"srv/x/.venv/bin/python": "/opt/app/bin/serve"},
        "/srv/x/.venv/bin",
        ("/srv/x/.venv",),
        "/srv/x/.venv/bin",
    ),
    "snap": (("snap/bin/code",), {}, "/snap/bin", (), ""),
    "the home of somebody else": (("home/v/.ssh/bin/x",), {}, "/home/v/.ssh/bin", (), ""),
}
