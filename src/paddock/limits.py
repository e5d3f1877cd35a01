"""Every limit of the program in one place, with its unit in its name and the reason beside it."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# -- frames (docs/frames.md) -------------------------------------------------------------------------------------------
FRAME_DATA_BYTES = 64 * KIB  # one read of a pipe; larger gains nothing, smaller costs wake-ups
FRAME_MESSAGE_BYTES = 1 * MIB  # a request with a full environment (128 KiB strings) fits; a bomb does not
FRAME_NESTING = 32  # levels of a message; a spec needs five, and a value from a peer must be safe to walk and to print
CHANNEL_BUFFER_BYTES = 256 * KIB  # unsent bytes per stream before the writer is paused

# -- names and requests ------------------------------------------------------------------------------------------------
NAME_CHARS = 64
ARGV_BYTES = 512 * KIB
ENV_ENTRIES = 1024
ENV_BYTES = 256 * KIB
MOUNTS_PER_BOX = 64

# -- per box defaults; every one can be set by a flag ------------------------------------------------------------------
PIDS_DEFAULT = 2048  # threads count too: a JVM or node beside a test-suite needs several hundred
DISK_BYTES_DEFAULT = 20 * GIB
OPEN_FILES = 65536  # soft and hard, capped by the caller's own hard limit
INOTIFY_INSTANCES = 48  # the kernel counts them per user across boxes: one box must not take all 128
INOTIFY_WATCHES = 65536
TERMINALS_PER_BOX = 256  # all boxes of a machine share some 3,000
SIGNALS_PER_BOX = 4096  # queued signals and timers: the kernel counts them per user, and the caller needs some too
MEMORY_FRACTION_DEFAULT = 0.75  # of the machine; one box alone cannot take all of it
NICE = 5  # the host stays responsive without a cpu controller

# -- box file systems --------------------------------------------------------------------------------------------------
SHM_BYTES = 256 * MIB  # or half the box's memory; browsers and test runners fail with the 64 MiB others give
TMPFS_ENTRIES = 65536  # a name costs kernel memory that no size counts
RUN_BYTES = 16 * MIB

# -- journals ----------------------------------------------------------------------------------------------------------
JOURNAL_BYTES = 64 * MIB  # per job, in two halves: the older one is dropped when the newer is full
JOBS_KEPT_PER_BOX = 64

# -- time --------------------------------------------------------------------------------------------------------------
START_TIMEOUT_S = 20.0  # a box that is not ready by then is killed
STOP_GRACE_S = 5.0
DAEMON_START_TIMEOUT_S = 15.0
WATCH_INTERVAL_S = 0.25
DRAIN_AFTER_EXIT_S = 0.25  # how long output held open by a background child is still read

# -- host safety floors ------------------------------------------------------------------------------------------------
DISK_FLOOR_BYTES = 512 * MIB  # below this free space, the boxes that grow are stopped
FILES_FLOOR_ENTRIES = 16_384  # the same for files the host can still make
MEMORY_FLOOR_BYTES = 384 * MIB
WATCH_STEP_BYTES = 64 * MIB  # boxes are accounted again only after the host lost this much
FILE_BYTES = 4 * KIB  # the least a file counts: an empty one takes an inode, of which the host has a fixed number
SOCKET_SCAN_ENTRIES = 200_000  # how much of a workspace is walked while sockets are bound with a relative name
SOCKET_LOOK_ENTRIES = 1_000  # and in any case, for sockets of other network namespaces: some 2 ms of a start

# -- daemon ------------------------------------------------------------------------------------------------------------
DAEMON_LOG_BYTES = 4 * MIB
CONNECTIONS_MAX = 4096
BOXES_MAX = 10_000
STARTS_MAX = 4  # at once; the others wait their turn, so that a burst of boxes delays nobody's answer

# -- policy ------------------------------------------------------------------------------------------------------------
POLICY_FILE_BYTES = 1 * MIB  # ten thousand rules fit; a project's file is a stranger's
POLICY_PATTERNS_MAX = 50_000  # of one source; what is decided stays as fast, what is kept in memory grows
