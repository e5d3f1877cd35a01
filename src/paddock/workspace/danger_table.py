"""Files that a host runs or obeys without being asked, by name: the data of the danger report.

A pattern is a name at any depth (`Makefile`, `*.pth`), a directory and all in it (`.husky/`), or a few last components
(`.github/copilot-instructions.md`). Names are compared folded, as the host's may be: no case, one Unicode form.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    kind: str
    why: str
    patterns: tuple[str, ...]


RULES: tuple[Rule, ...] = (
    Rule(
        kind="git",
        why="git obeys it in this repository",
        patterns=(".gitattributes", ".gitmodules", ".lfsconfig", ".gitconfig", ".git-hooks/", ".githooks/"),
    ),
    Rule(
        kind="hooks",
        why="git runs it at the next commit, merge or push",
        patterns=(
            ".husky/", ".huskyrc*", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml",
            "lefthook.*", "lefthook-local.*", ".lefthook.*", ".lefthook-local.*", ".lefthook/", ".commitlintrc*",
            ".overcommit.yml",
            ".lintstagedrc*", "lint-staged.config.*", "commitlint.config.*", ".simple-git-hooks.*",
        ),
    ),
    Rule(
        kind="ci",
        why="a build server runs it with its secrets at the next push",
        patterns=(
            ".github/workflows/", ".github/actions/", ".github/dependabot.yml", "action.yml", "action.yaml",
            ".gitlab-ci.yml", ".gitlab/", ".circleci/", ".travis.yml", "azure-pipelines.yml", ".azure-pipelines/",
            "bitbucket-pipelines.yml", "Jenkinsfile*", ".drone.yml", ".woodpecker/", ".woodpecker.yml", ".buildkite/",
            ".forgejo/", ".gitea/", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", ".semaphore/", ".teamcity/",
            "cloudbuild.yaml", "cloudbuild.yml", "buildspec.yml", "wercker.yml", "CODEOWNERS", "renovate.json*",
            ".releaserc*", ".goreleaser.y*ml", "netlify.toml", "vercel.json", "fly.toml", "Procfile",
        ),
    ),
    Rule(
        kind="ide",
        why="an editor runs or obeys it when the project is opened",
        patterns=(
            ".vscode/", "*.code-workspace", ".idea/", "*.iml", "*.ipr", ".fleet/", ".zed/", ".vs/",
            "*.sublime-project", ".devcontainer/", ".devcontainer.json", ".vimrc", ".nvimrc", ".exrc", ".nvim.lua",
            ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".emacs", ".projectile", ".gitpod.yml", ".theia/",
            ".run/", ".helix/", ".luarc.json", ".nvim/", ".vim/", ".emacs.d/", ".kakrc", ".project", ".classpath",
            ".settings/", "*.sln", "*.suo", "*.csproj.user",
        ),
    ),
    Rule(
        kind="shell",
        why="a shell or version manager runs or obeys it when the directory is entered",
        patterns=(
            ".envrc", ".envrc.*", ".env", ".env.*", ".tool-versions", "mise.toml", ".mise.toml", "mise.*.toml",
            ".mise/",
            ".nvmrc", ".node-version", ".python-version", ".ruby-version", ".java-version", ".sdkmanrc", ".rvmrc",
            ".ruby-gemset", ".asdfrc", ".direnvrc", "devenv.nix", "devenv.yaml", "devbox.json", ".autoenv*",
            ".bashrc", ".zshrc", ".zshenv", ".profile", ".bash_profile", ".inputrc", "rust-toolchain",
            "rust-toolchain.toml", "flox.nix", ".flox/",
            # Interpreters and debuggers that read a file of the directory they are started in.
            ".irbrc", ".pryrc", ".Rprofile", ".Renviron", ".RData", ".ghci", ".ocamlinit", ".iex.exs", ".erlang",
            ".octaverc", ".gdbinit", ".lldbinit", ".pdbrc", ".pdbrc.py", "jupyter_*config.py", "ipython_*config.py",
        ),
    ),
    Rule(
        kind="packages",
        why="a package manager obeys it: where packages come from and what is run when they are installed",
        patterns=(
            ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/", ".pnp.cjs", ".pnp.loader.mjs", "pnpm-workspace.yaml",
            ".pnpmfile.*", "pnpmfile.*", "package.yaml", "package.json5", "uv.toml", "poetry.toml", "pdm.toml",
            "bunfig.toml", "pip.conf", ".pypirc", ".condarc", "environment.yml",
            "environment.yaml", "bower.json", ".bowerrc", "nuget.config", "Directory.Build.props",
            "Directory.Build.targets", ".bundle/", "Gemfile", "*.gemspec", "composer.json", "auth.json", "Podfile",
            "Package.swift", "pubspec.yaml", "mix.exs", "rebar.config", "stack.yaml", "cabal.project*", "opam",
            "conanfile.*", "vcpkg.json", "go.work", "node_modules/", "site-packages/", ".venv/",
            "venv/",
        ),
    ),
    Rule(
        kind="build",
        why="a build or task runner runs it",
        patterns=(
            "Makefile", "GNUmakefile", "Makefile.am", "Makefile.in", "*.mk", "*.mak", "justfile", ".justfile", "*.just",
            "Taskfile.y*ml", "Taskfile.dist.y*ml", "Rakefile", "*.rake", "Vagrantfile", "CMakeLists.txt", "*.cmake",
            "CMakePresets.json", "CMakeUserPresets.json", "meson.build", "meson_options.txt", "meson.options",
            "configure", "configure.ac", "*.m4", "SConstruct", "SConscript", "wscript", "build.rs", ".cargo/",
            "build.gradle*", "settings.gradle*", "gradle.properties", "gradlew*", "gradle/", "init.gradle*", "pom.xml",
            ".mvn/", "mvnw*", "build.xml", "ivy.xml", "build.sbt", "*.sbt", "project/build.properties", "build.sc",
            "BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel", "*.bzl", ".bazelrc",
            ".bazelversion", ".buckconfig", "flake.nix", "default.nix", "shell.nix", "*.nix", "build.zig",
            "build.zig.zon", "magefile.go", "earthfile", "Tiltfile", "skaffold.yaml", "setup.py", "setup.cfg",
            "hatch_build.py", "pdm_build.py", "noxfile.py", "tox.ini", "tasks.py", "dodo.py", "fabfile.py",
            "webpack.config.*", "webpack.*.js", "rollup.config.*", "vite.config.*", "vitest.config.*", "vitest.*.ts",
            "esbuild.*", "babel.config.*", ".babelrc*", "postcss.config.*", ".postcssrc*", "tailwind.config.*",
            "next.config.*", "nuxt.config.*", "svelte.config.*", "astro.config.*", "remix.config.*", "gulpfile*",
            "gruntfile*", "turbo.json", "nx.json", "project.json", "lerna.json", "rspack.config.*", "metro.config.*",
            "angular.json", "tsup.config.*", "unocss.config.*", "binding.gyp", "*.gyp", "*.gypi", "build.cmd",
            "build.ps1", "build.sh", "*.proj", "*.targets", "*.props", "*.csproj", "*.fsproj", "*.vcxproj",
            "deno.json*",
              "*.podspec", "*.xcscheme", "project.pbxproj", "Brewfile", "Snakefile", "Guardfile",
            "xmake.lua", "premake*.lua", "build.ninja", "BUCK", "TARGETS", ".buckconfig.*", ".bazeliskrc",
            "tools/bazel",
            "dune", "dune-project", "Jakefile", "Cakefile", "Capfile", "Thorfile", "Dangerfile", "fastlane/",
            "nodemon.json",
            ".nodemonrc*", "gunicorn.conf.py", "locustfile.py", "vue.config.*", "rush.json", ".moon/",
            "release.config.*",
        ),
    ),
    Rule(
        kind="tests",
        why="a test runner or linter loads and runs it",
        patterns=(
            "conftest.py", "pytest.ini", ".pytest.ini", ".coveragerc", "jest.config.*", "jest.setup.*", ".mocharc*",
            "karma.conf.*", "cypress.config.*", "playwright.config.*", ".eslintrc*", "eslint.config.*",
            ".prettierrc*", "prettier.config.*", "stylelint.config.*", ".stylelintrc*", ".rubocop.yml", ".rspec",
            "spec_helper.rb", "phpunit.xml*", ".php-cs-fixer*", "phpstan.neon*", ".golangci.y*ml", ".pylintrc",
            "pylintrc", ".flake8", "mypy.ini", "ava.config.*", "wdio.conf.*", "protractor.conf.*", ".nycrc*",
            "knip.*", ".swcrc", ".clang-tidy", ".clangd", "compile_commands.json", "compile_flags.txt",
        ),
    ),
    Rule(
        kind="containers",
        why="a container or cloud tool builds or starts it with the host's rights",
        patterns=(
            "Dockerfile", "Dockerfile.*", "*.dockerfile", "Containerfile*", "docker-compose*",
            "compose.y*ml", "compose.*.y*ml", "docker-bake.*", "*.tf", "*.tfvars", "*.hcl", ".terraformrc",
            "terragrunt.hcl", "Pulumi*.yaml", "Chart.yaml", "helmfile.yaml", "kustomization.y*ml", "ansible.cfg",
            "*.service", "*.timer", "*.socket", "serverless.yml", "cdk.json", "*.plist", "crontab",
        ),
    ),
    Rule(
        kind="python",
        why="Python runs it at every start in this directory or environment",
        patterns=("sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-link", "*.pyc", "pyvenv.cfg", "__pycache__/"),
    ),
    Rule(
        kind="agent",
        why="a coding agent on the host obeys it: instructions, permissions, hooks, MCP servers",
        patterns=(
            ".claude/", ".claude.json", "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENT.md", ".agents/", ".agent/",
            ".codex/", ".gemini/", "GEMINI.md", ".cursor/", ".cursorrules", ".cursorignore", ".windsurf/",
            ".windsurfrules", ".mcp.json", "mcp.json", "mcp.y*ml", ".aider*", ".continue/", ".continuerc.json",
            ".cline/", ".clinerules", ".clinerules/", ".roo/", ".roomodes", ".roorules", ".kiro/", ".amazonq/",
            ".opencode/", "opencode.json", "opencode.jsonc", ".cagent/", "cagent.y*ml", ".goose/", ".goosehints",
            ".junie/", ".augment/", ".augment-guidelines", ".github/copilot-instructions.md", ".github/instructions/",
            ".github/prompts/", ".github/chatmodes/", ".github/agents/", "SKILL.md", ".skills/", ".crush/",
            "crush.json",
            ".amp/", ".qwen/", "QWEN.md", ".trae/", ".zencoder/", ".paddock/", "paddock.toml", ".paddock.toml",
        ),
    ),
)  # fmt: skip

# Read and compared rather than flagged as a whole: they change at every addition of a package.
LOCKFILES = frozenset({
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock",
    "cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "pipfile.lock", "pylock.toml", "gemfile.lock", "composer.lock",
    "go.sum", "flake.lock", "mix.lock", "pubspec.lock", "podfile.lock", "package.resolved", "gradle.lockfile",
    "packages.lock.json", "conan.lock", "module.bazel.lock", ".terraform.lock.hcl", "pixi.lock", "conda-lock.yml",
})  # fmt: skip
