"""One function a verb. Each loads only its own module: imports are most of a short command's time."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def completion(options: argparse.Namespace) -> int:
    from paddock.cli import completion

    return completion.completion(options)


def cp(options: argparse.Namespace) -> int:
    from paddock.cli import copying

    return copying.cp(options)


def create(options: argparse.Namespace) -> int:
    from paddock.cli import running

    return running.create(options)


def daemon(options: argparse.Namespace) -> int:
    from paddock.cli import daemon

    return daemon.daemon(options)


def doctor(options: argparse.Namespace) -> int:
    from paddock.cli import doctor

    return doctor.doctor(options)


def env(options: argparse.Namespace) -> int:
    from paddock.cli import looking

    return looking.env(options)


def exec_(options: argparse.Namespace) -> int:
    from paddock.cli import executing

    return executing.exec_(options)


def help_(_options: argparse.Namespace) -> int:
    from paddock.cli import parser

    print(parser.overview(), end="")
    return 0


def inspect(options: argparse.Namespace) -> int:
    from paddock.cli import looking

    return looking.inspect(options)


def logs(options: argparse.Namespace) -> int:
    from paddock.cli import logs

    return logs.logs(options)


def ls(options: argparse.Namespace) -> int:
    from paddock.cli import looking

    return looking.ls(options)


def network_log(options: argparse.Namespace) -> int:
    from paddock.cli import netlog

    return netlog.network_log(options)


def network_proxy(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.proxy(options)


def noun_help(options: argparse.Namespace) -> int:
    from paddock.cli import parser

    print(parser.noun_overview(options.noun), end="")
    return 0


def policy_allow(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.allow(options)


def policy_approve(options: argparse.Namespace) -> int:
    from paddock.cli import asking

    return asking.approve(options)


def policy_check(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.check(options)


def policy_deny(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.deny(options)


def policy_export(options: argparse.Namespace) -> int:
    from paddock.cli import exchange

    return exchange.export(options)


def policy_import(options: argparse.Namespace) -> int:
    from paddock.cli import exchange

    return exchange.import_(options)


def policy_pending(options: argparse.Namespace) -> int:
    from paddock.cli import asking

    return asking.pending(options)


def policy_rm(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.rm(options)


def policy_show(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.show(options)


def policy_suggest(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.suggest(options)


def policy_why(options: argparse.Namespace) -> int:
    from paddock.cli import policy

    return policy.why(options)


def ports(options: argparse.Namespace) -> int:
    from paddock.cli import looking

    return looking.ports(options)


def prune(options: argparse.Namespace) -> int:
    from paddock.cli import ending

    return ending.prune(options)


def reset(options: argparse.Namespace) -> int:
    from paddock.cli import ending

    return ending.reset(options)


def rm(options: argparse.Namespace) -> int:
    from paddock.cli import ending

    return ending.rm(options)


def run(options: argparse.Namespace) -> int:
    from paddock.cli import starting

    return starting.run(options)


def runs(options: argparse.Namespace) -> int:
    from paddock.cli import runs

    return runs.runs(options)


def stop(options: argparse.Namespace) -> int:
    from paddock.cli import ending

    return ending.stop(options)


def secret_check(options: argparse.Namespace) -> int:
    from paddock.cli import secrets

    return secrets.check(options)


def secret_login(options: argparse.Namespace) -> int:
    from paddock.cli import agent_login

    return agent_login.login(options)


def secret_ls(options: argparse.Namespace) -> int:
    from paddock.cli import secrets

    return secrets.ls(options)


def secret_rm(options: argparse.Namespace) -> int:
    from paddock.cli import secrets

    return secrets.rm(options)


def secret_set(options: argparse.Namespace) -> int:
    from paddock.cli import secrets

    return secrets.set_(options)


def usage(options: argparse.Namespace) -> int:
    from paddock.cli import spending

    return spending.usage(options)


def version(_options: argparse.Namespace) -> int:
    from paddock._version import VERSION

    print(f"paddock {VERSION}")
    return 0


def apply(options: argparse.Namespace) -> int:
    from paddock.cli import reviewing

    return reviewing.apply(options)


def diff(options: argparse.Namespace) -> int:
    from paddock.cli import reviewing

    return reviewing.diff(options)


def discard(options: argparse.Namespace) -> int:
    from paddock.cli import reviewing

    return reviewing.discard(options)


def git(options: argparse.Namespace) -> int:
    from paddock.cli import reviewing

    return reviewing.git(options)


def agent_check(options: argparse.Namespace) -> int:
    from paddock.cli import checking

    return checking.check(options)


def agent_install(options: argparse.Namespace) -> int:
    from paddock.cli import installing

    return installing.install(options)


def agent_ls(options: argparse.Namespace) -> int:
    from paddock.cli import agentlist

    return agentlist.ls(options)


def agent_rm(options: argparse.Namespace) -> int:
    from paddock.cli import installing

    return installing.rm(options)


def agent_show(options: argparse.Namespace) -> int:
    from paddock.cli import agentlist

    return agentlist.show(options)


def checkpoint_create(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.create(options)


def checkpoint_ls(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.ls(options)


def checkpoint_restore(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.restore(options)


def checkpoint_workspace(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.workspace(options)


def checkpoint_fork(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.fork(options)


def checkpoint_diff(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.diff(options)


def checkpoint_rm(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.rm(options)


def checkpoint_prune(options: argparse.Namespace) -> int:
    from paddock.cli import checkpoints

    return checkpoints.prune(options)


def df(options: argparse.Namespace) -> int:
    from paddock.cli import space

    return space.df(options)


def template_ls(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.ls(options)


def template_inspect(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.inspect(options)


def template_rm(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.rm(options)


def template_load(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.load(options)


def template_save(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.save(options)


def template_pull(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.pull(options)


def template_push(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.push(options)


def template_build(options: argparse.Namespace) -> int:
    from paddock.cli import builds

    return builds.build(options)


def save(options: argparse.Namespace) -> int:
    from paddock.cli import templates

    return templates.save_box(options)


def checkpoint_export(options: argparse.Namespace) -> int:
    from paddock.cli import checkpointfiles

    return checkpointfiles.export(options)


def checkpoint_import(options: argparse.Namespace) -> int:
    from paddock.cli import checkpointfiles

    return checkpointfiles.import_(options)
