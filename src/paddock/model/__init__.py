"""The values everything else passes around. Built once at the edge, frozen, checked in their own constructors."""

from paddock.model.box import (
    BoxId,
    BoxInfo,
    BoxRequest,
    BoxSpec,
    BoxState,
    Enforcement,
    EngineName,
    Evidence,
    LimitReport,
    Limits,
    Mount,
    View,
    WorkspaceMode,
)
from paddock.model.checks import check_env, check_name
from paddock.model.command import ExecResult, ExecSpec, JobInfo, TtySize
from paddock.model.image import ImageRun
from paddock.model.lent import Budget, Lent, McpServer, SecretUse, SshUse
from paddock.model.network import Network, NetworkRule, Publish

__all__ = [
    "BoxId",
    "BoxInfo",
    "BoxRequest",
    "BoxSpec",
    "BoxState",
    "Budget",
    "Enforcement",
    "EngineName",
    "Evidence",
    "ExecResult",
    "ExecSpec",
    "ImageRun",
    "JobInfo",
    "Lent",
    "LimitReport",
    "Limits",
    "McpServer",
    "Mount",
    "Network",
    "NetworkRule",
    "Publish",
    "SecretUse",
    "SshUse",
    "TtySize",
    "View",
    "WorkspaceMode",
    "check_env",
    "check_name",
]
