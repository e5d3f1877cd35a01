"""Every limit of the program in one place, with its unit in its name and the reason beside it."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# -- frames (docs/frames.md) -------------------------------------------------------------------------------------------
FRAME_DATA_BYTES = 64 * KIB  # one read of a pipe; larger gains nothing, smaller costs wake-ups
FRAME_MESSAGE_BYTES = 1 * MIB  # a request with a full environment (128 KiB strings) fits; a bomb does not
FRAME_NESTING = 32  # levels of a message; a spec needs five, and a value from a peer must be safe to walk and to print

# -- gateway: bytes from a box and from the world ----------------------------------------------------------------------
CLIENT_HELLO_BYTES = 16 * KIB  # with post-quantum keys some 2 KiB
CLIENT_HELLO_RECORDS_MAX = 16  # in one by rule; a few where a client cuts it to pass a broken middlebox
HTTP_HEAD_BYTES = 64 * KIB
HTTP_HEADERS_MAX = 100
HTTP_INTERIM_MAX = 32  # 1xx answers before the real one
DNS_QUERY_BYTES = 1 * KIB  # a name, EDNS and a few options; over UDP and TCP
DNS_UDP_BYTES = 1232  # what passes any path unfragmented
NAMES_PER_BOX = 8192  # addresses a box has names for; as many again may be cooling
NAME_COOL_DOWN_S = 60.0  # before another name gets the address: well over the TTL of our answers
RESOLVE_TIMEOUT_S = 8.0  # over all nameservers
RESOLVE_ATTEMPT_S = 2.0  # for one of them to answer
RESOLVE_TTL_DEFAULT = 300  # seconds an answer is kept at most, whatever it says
RESOLVE_CACHE_ENTRIES = 4096
RESOLVE_ADDRESSES_MAX = 32  # of one name
RESOLVE_LOOKUPS_MAX = 512  # under way at once, for all boxes
DIAL_TIMEOUT_S = 10.0
DIAL_ATTEMPTS_MAX = 2  # at once for one connection: a name may have many addresses, and a box may have made the name
DIAL_STAGGER_S = 0.25  # before the next address is tried beside the last (RFC 8305)
UPSTREAM_TIMEOUT_S = 15.0  # for the user's own proxy to make a connection

# -- names and requests ------------------------------------------------------------------------------------------------
NAME_CHARS = 64
ARGV_BYTES = 512 * KIB
ENV_ENTRIES = 1024
ENV_BYTES = 256 * KIB
MOUNTS_PER_BOX = 64
MASKS_PER_BOX = 64

# -- policy and its sources --------------------------------------------------------------------------------------------
RULES_PER_BOX = 10_000  # the number a decision is fast with
REQUEST_RULES_MAX = 1000  # of one source: each that speaks of a host is looked at for each request to it
REQUEST_RULE_CHARS = 2048
PUBLISHED_PER_BOX = 64
NETWORK_LOGS_MAX = 64  # of boxes that are gone: a run's refusals can be read after it
APPROVALS_MAX = 4096
PROJECT_FILE_BYTES = 64 * KIB  # of a workspace; its [network] is stored with the box

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

# -- the sealed network (docs/process-engine.md) -----------------------------------------------------------------------
SEAL_TCP_PORT = 61001  # in every box: where all TCP that leaves its loopback ends
SEAL_DNS_PORT = 61053  # and where every question for a name ends
SAVE_S = 150.0  # a box with its memory, some gigabytes on a slow disk
LINK_ADDRESS = "169.254.7.1"  # of the gateway in a box with a network stack of its own
LINK_BOX_ADDRESS = "169.254.7.2"  # and of that box: the one on the other end of a link of two
GATEWAY_ADDRESS = "198.18.0.1"  # gateway.paddock; RFC 2544 gives 198.18.0.0/15 to benchmarks, so nobody routes it
REFUSAL_ADDRESS = "198.18.0.2"  # what every denied name means
SYNTHETIC_FIRST, SYNTHETIC_LAST = "198.18.1.0", "198.19.255.255"  # what permitted names mean, box by box
PROXY_PORT = 3128
SEAL_CHECK_S = 5.0  # the gateway answers in a millisecond; a box that hears nothing does not start
LOCALHOST_PORTS_MAX = 64  # per box, two listeners each: they go to the gateway in one message of 253 descriptors
DOOR_MESSAGE_BYTES = 4 * KIB

# -- journals ----------------------------------------------------------------------------------------------------------
JOURNAL_BYTES = 64 * MIB  # per job, in two halves: the older one is dropped when the newer is full
JOBS_KEPT_PER_BOX = 64

# -- records of runs ---------------------------------------------------------------------------------------------------
RUNS_MAX = 1000  # records that are kept, the newest
RUN_RECORD_BYTES = 256 * KIB  # one of them; a full one has some 40
RUN_JOURNAL_BYTES = 8 * MIB  # of a run that somebody waits for: it is kept for its end
RUN_FINAL_CHARS = 2000  # of an agent's last message
RUN_LINE_BYTES = 1 * MIB  # of machine output that is read as one event
RUN_TAIL_BYTES = 16 * KIB  # of the end of the output, where the words of a failure are looked for
RUN_READ_S = 3.0  # for reading the output of a run, which a box can make slow to read
RUN_NAMES_MAX = 20  # files that a record names
RUN_HOSTS_MAX = 32  # and refused hosts
RUN_WALK_ENTRIES = 500_000  # how much of a workspace is walked for what changed
RUN_WALK_S = 5.0
RUN_LOOK_S = 2.0  # between two looks at a run that goes on
RUN_END_WAIT_S = 20.0  # how long a caller waits for a record to be complete
RUN_REFUSED_ANSWERS_MAX = 3  # answers 401 or 403, and no other, before a headless run is ended,
RUN_REFUSED_S = 5.0  # if they came for this long

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

# -- review of what a box changed --------------------------------------------------------------------------------------
REVIEW_ENTRIES = 250_000  # changed files that one review holds; each costs some 600 bytes of memory
REVIEW_PATH_BYTES = 4095  # a longer path cannot be named to any program of the host
REVIEW_TEXT_BYTES = 2 * MIB  # a larger file is told by its size and digest, not shown line by line
REVIEW_FILE_BYTES = 4 * GIB  # a file that comes home is read twice; a sparse one costs its box nothing
HISTORY_BYTES = 32 * MIB  # names of a layer that are told apart by when they were written; the daemon holds them
REVIEW_LINE_CHARS = 2000  # a longer line is shortened, and its file called minified
REVIEW_SHOWN_BYTES = 16 * MIB  # text of one diff over all files; the rest is summarised
REVIEW_RENAME_BYTES = 256 * MIB  # content that is read to tell a rename from a deletion beside an addition
REVIEW_PINS_MAX = 50_000  # applied files that are known between two epochs; of older ones it is not known any more
REVIEW_WATCHES_MAX = 16_384  # directories watched for boxes in review; each costs the kernel about 1 KiB
REVIEW_UNDO_MAX = 16  # applies that can be undone; older copies are dropped
APPLY_TURN_S = 600.0  # how long an apply waits for those of other boxes

# -- daemon ------------------------------------------------------------------------------------------------------------
DAEMON_LOG_BYTES = 4 * MIB
CONNECTIONS_MAX = 4096
BOXES_MAX = 10_000
STARTS_MAX = 4  # at once; the others wait their turn, so that a burst of boxes delays nobody's answer

# -- gateway: control --------------------------------------------------------------------------------------------------
GATEWAY_DOCUMENT_BYTES = 16 * MIB  # a policy of 10,000 rules has 2; one of an organisation may have more
GATEWAY_REPLY_S = 10.0  # it answers in milliseconds; after this it is taken for stuck
GATEWAY_START_S = 10.0
GATEWAY_ALONE_S = 2.0  # without a daemon and without a box it ends: nobody would find it again

# -- gateway: flows ----------------------------------------------------------------------------------------------------
FLOW_CHUNK_BYTES = 64 * KIB  # one read, and the most a direction keeps
FLOW_GATED_BYTES = 16 * KIB  # the most of one read that is parsed
FLOW_GATED_LEAST_BYTES = 1 * KIB  # some 30 of the smallest requests, or 170 of the smallest chunks
FLOW_GATE_S = 0.002  # parsing longer than this, less is read the next time
FLOW_SPLICE_AFTER_BYTES = 256 * KIB  # below that a pipe costs more than it saves
FLOW_PIPE_BYTES = 1 * MIB  # with a quarter of it bulk is a fifth slower
FLOW_LARGE_PIPES_MAX = 32  # so large; the kernel lets an ordinary user have 64 MiB of pipes, and theirs is not all ours
FLOW_PIPES_MAX = 256  # of all flows; the others are copied
FLOW_TURN_BYTES = 4 * MIB  # one flow moves at a time, then the others
FLOW_IDLE_S = 4 * 3600.0  # without a byte either way; pools of database connections and shells stay idle for long
FLOW_HALF_CLOSED_S = 600.0  # the same when one side has ended
FLOW_HAND_BACK_S = 30.0  # how long a server may go on answering before the client goes to another one
FLOW_SWEEP_S = 15.0
FLOWS_PER_BOX = 1024
INTAKES_PER_BOX = 256  # connections of which it is not yet known what they are: the kernel keeps 1024 more waiting
INTAKE_FIRST_S = 60.0  # browsers open connections ahead of need
INTAKE_SNIFF_S = 0.2  # on other ports than 80 and 443: a denied client that waits for the server to begin gets a reset
INTAKE_STALL_S = 10.0  # between two pieces of the first message
INTAKE_TOTAL_S = 180.0  # for all of it, waiting for a person included
INTAKE_LINGER_S = 2.0  # after a refusal, so that it is read before the connection is gone
DESCRIPTORS_KEPT_MAX = 256  # of the process, for what is not a flow
QUERIES_PER_SECOND_MAX = 1000  # for names; beyond it they are dropped
QUERY_BURST_MAX = 4000
TLS_REFUSALS_PER_SECOND_MAX = 50  # each costs a signature or two; beyond it an alert has to do
NAME_TTL_DEFAULT = 5  # seconds that a box may remember an answer for

# -- gateway: the box's door -------------------------------------------------------------------------------------------
DOOR_ASKS_MAX = 256
DOOR_REPLY_S = 10.0  # init gives up a dial after 3; those before it in the queue may all take that long

# -- certificates and records of the gateway ---------------------------------------------------------------------------
LEAVES_PER_BOX = 32  # server contexts kept for refusals, some 20 KiB each; a new one costs half a millisecond
LEAF_USES_MAX = 256  # a context remembers as many TLS 1.2 sessions
LEAF_AGE_S = 24 * 3600.0  # a leaf is valid for 30 days
REFUSAL_HEAD_BYTES = 64 * KIB  # of a request that is refused anyway
REFUSAL_FED_BYTES = 192 * KIB  # of records until then, handshake included
AUDIT_BYTES = 8 * MIB  # per box, in two halves that take turns: some 15,000 connections
AUDIT_LINE_BYTES = 4 * KIB
DENIALS_BYTES = 256 * KIB  # the box's own file: some 1,000 refusals
ASK_HOLD_S = 30.0  # how long a connection waits for an answer
ASK_GRANT_S = 60.0  # how long an answer given to nobody waiting counts for the next who asks
ASKS_PER_BOX = 64  # different destinations
ASK_WAITERS_PER_BOX = 256  # connections held by them

# -- inspection --------------------------------------------------------------------------------------------------------
INSPECTED_PER_BOX = 256  # connections; each holds some 100 KiB of TLS at worst
INSPECTED_READ_BYTES = 64 * KIB  # one read of ciphertext
INSPECTED_UNREAD_BYTES = 64 * KIB  # of requests that wait for the answer before them; then no more is read
TLS_UNHEARD_BYTES = 64 * KIB  # that TLS answered to one end by itself, and that end did not read
TLS_PIECE_BYTES = 16 * KIB  # what is encrypted or decrypted at once: a buffer of OpenSSL's keeps the size it once had
SECRETS_PER_BOX = 64
SECRETS_RETIRED_MAX = 16  # values that were replaced while a box ran and are still looked for
PLACEHOLDER_LEAST_CHARS = 16
PLACES_PER_BOX = 256  # hosts for which it is remembered what applies to them

# -- policy ------------------------------------------------------------------------------------------------------------
POLICY_FILE_BYTES = 1 * MIB  # ten thousand rules fit; a project's file is a stranger's
POLICY_PATTERNS_MAX = 50_000  # of one source; what is decided stays as fast, what is kept in memory grows

# -- workspace: git ----------------------------------------------------------------------------------------------------
GIT_TIMEOUT_S = 120.0  # one run of git on the host; a fetch of a full bundle takes most of it on a slow disk
CLONE_TIMEOUT_S = 900.0  # writing all files of a large repository
GIT_ALLOCATION_BYTES = 1 * GIB  # one allocation of git: a delta that claims more is a bomb
GIT_FILE_BYTES = 1 * MIB  # one small file of a repository: HEAD, config, info/exclude
GIT_REFS_BYTES = 64 * MIB  # packed-refs; half a million references
GIT_REFS_MAX = 500_000
GIT_INDEX_BYTES = 512 * MIB  # some four million files
GIT_SUBMODULES_MAX = 256
GIT_BASE_TIPS_MAX = 256  # branches whose commits a box keeps alive on the host
BUNDLE_BYTES = 2 * GIB  # commits of a box on their way home; more is data, not source
BUNDLE_REFS_MAX = 1000
GIT_LOG_COMMITS_MAX = 1000
FAREWELL_S = 30.0  # what a box that is removed by force has for its commits to come home
NESTED_ENTRIES = 500_000  # how much of a workspace is walked for repositories inside it
NESTED_CHARS = 32 * MIB  # of paths yet to be walked: directories side by side at a depth of a megabyte fill memory
NESTED_S = 5.0
TREE_MEMORY_BYTES = 16 * MIB  # what the daemon remembers of all workspaces; some 30,000 directories
NESTED_MAX = 256  # found, reported or closed; each is a mount in the box
FOREIGN_LOOK_ENTRIES = 500  # and for files that a review cannot change; the rest is looked at after the start
SECRET_LOOK_ENTRIES = 2_000  # how much of a workspace is looked at for passwords and keys: some 3 ms of a start
COVERED_DIRECTORIES_MAX = 4096  # watched for names that are covered in live boxes; the rest is looked at every second
COVERS_AT_ONCE_MAX = 4  # boxes in which names are covered again, a process each
COVER_SPACING_S = 0.02  # between two times for one box: who replaces a file in a loop costs others little
COVER_POLL_S = 1.0

# -- secrets -----------------------------------------------------------------------------------------------------------
SECRET_BYTES = 8 * KIB  # the longest token seen has 4; a header has to carry it
SECRET_GROWTH_MAX = 64  # times that a request full of placeholders may grow
SECRET_LEAST_CHARS = 8  # a shorter one stands in many a text by chance, and its appearance elsewhere is refused
SECRETS_MAX = 256  # of one user
SECRET_HOSTS_MAX = 32  # and headers, variables, repositories of one secret
SECRET_RECORD_BYTES = 64 * KIB
SECRET_COMMAND_S = 30.0  # a password manager may ask for a finger
SECRET_CACHE_S = 60.0  # how long what a command printed is used again: a run asks several times
KEYRING_S = 10.0  # to answer; a locked one asks its user, and in vain where nobody sits

# -- metering ----------------------------------------------------------------------------------------------------------
METER_WORD_BYTES = 256  # of a key or a value that is looked at; the name of a model has some 40
METER_UNFOLDED_BYTES = 64 * MIB  # of one compressed answer; the longest has some 5
METER_TOKENS_MAX = 100_000_000  # in one count of one answer: above it is nonsense, and still bounded
AGENT_MESSAGE_BYTES = 256 * KIB  # as OpenSSH's own
AGENT_SESSIONS_MAX = 16  # hosts that one connection to an ssh-agent is bound to, as OpenSSH's own
AGENT_CONNECTIONS_MAX = 16  # of one box at once
AGENT_ANSWER_S = 120.0  # a user may be asked for each use of a key
CHECKPOINTS_PER_BOX = 1_000
LAYERS_PER_BOX = 120  # a root caller's are passed as descriptors, of which a message takes 253; kernels stack 500
COMPACT_LAYERS_MAX = 50  # that a box's root or home stands on before they are merged into one, beside its work
FORKS_MAX = 100
FREE_LEAST_BYTES = 64 * MIB  # no checkpoint is made with less: its box needs room to write that it was
BUILD_CACHE_S = 30 * 86400.0  # that a step of a build is kept without being used
SSH_KEYS_PER_BOX = 32
KNOWN_HOSTS_BYTES = 4 * MIB
USAGES_MAX = 1000  # boxes of which it is known what they spent
METER_MODELS_MAX = 64  # told apart for one box; what follows is counted together
METER_ANSWER_TOKENS_MAX = 128_000  # the most that a model says in one answer
METER_FLIGHTS_MAX = 16  # requests at once in a box with a budget, however cheap those before were
METER_FIRST_FLIGHTS_MAX = 4  # requests at once of which none has shown what it costs, when there is a budget

# -- tools -------------------------------------------------------------------------------------------------------------
TOOL_BYTES = 2 * GIB  # of one version; the largest agent has some 300 MiB
TOOL_ENTRIES = 200_000
TOOL_PATH_BYTES = 1024  # below the tree; what npm nests deepest has some 300
TOOL_INSTALL_S = 1800.0  # a slow line; who installs at the same time waits as long
TOOL_FILE_BYTES = 16 * MIB  # of a lock file or a report of a package manager
PROBE_S = 30.0  # for `--version` or `--help`, on a cold disk
PROBE_BYTES = 512 * KIB  # of what it says
PROBES_MAX = 256  # programs of which it is remembered

# -- what of the user's own is in a box, and what outlives it --------------------------------------------------------
KEPT_STATES_MAX = 64  # of agents whose boxes are gone; the oldest goes
SETTINGS_FILES_MAX = 500  # brought into a box by --with-settings
SETTINGS_BYTES = 8 * MIB
SETTINGS_FILE_BYTES = 1 * MIB
SETTINGS_DEPTH_MAX = 8  # directories within each other
MCP_SERVERS_PER_BOX = 16
MCP_CONNECTIONS_MAX = 16  # of one box at once; each is a box of its own
MCP_BURST_S = 10.0  # in which one box starts as many; an agent that connects in a loop costs others little
MCP_FILE_BYTES = 1 * MIB  # the user's list of servers
MCP_AGENT_FILE_BYTES = 16 * MIB  # an agent's own file with such a list, which may hold more than that
MCP_TOML_BYTES = 256 * KIB  # of such a file in a box, which the box may have written; it is read as TOML
# -- images and layers -------------------------------------------------------------------------------------------------
ARCHIVE_BYTES = 64 * GIB  # of one layer, unpacked; what the disk can spare is less on most machines
ARCHIVE_ENTRIES = 1_000_000  # a large image has 300,000; a name costs the host an inode
ARCHIVE_HEADER_BYTES = 256 * KIB  # what comes before one entry: a path and its attributes
ARCHIVE_XATTRS_MAX = 64  # of one file
ARCHIVE_DEPTH_MAX = 128  # directories in one another; node_modules reaches some 60
ARCHIVE_NAME_BYTES = 255  # as the kernel
ARCHIVE_PATH_BYTES = 4095  # the same
ARCHIVE_TARGET_BYTES = 4095  # of a symbolic link; the same
ARCHIVE_DIRECTORY_BYTES = 64 * MIB  # names of directories and marks of one layer, which are kept in memory
DOCKERFILE_BYTES = 1 * MIB  # the largest seen has 100 KiB
DOCKERFILE_INSTRUCTIONS_MAX = 2_000  # and variables of one stage, or words of one instruction
DOCKERFILE_VALUES_BYTES = 1 * MIB  # of all of these together; the kernel takes 2 MiB for a command
DOCKERFILE_VALUE_BYTES = 128 * KIB  # of one argument with its variables: ENV A=$A$A doubles with each line
DOCKERIGNORE_BYTES = 256 * KIB
DOCKERIGNORE_PATTERNS_MAX = 1000  # each is tried on every file of a build directory, and on the directories around it
BUILD_COPY_BYTES = 8 * GIB  # of all that one COPY takes; a hole in a file counts as what it would be read as
BUILD_COPY_ENTRIES = 500_000  # the same
BUILD_STEP_S = 3600.0  # one RUN; a toolchain that is compiled takes half of it
BUILD_BASE_S = 1800.0  # a distribution from its packages; 90 s on a small machine
BUILDS_MAX = 4  # each has a thread of its own and one box at a time
IMAGE_BYTES = 64 * GIB  # of a file of images
IMAGE_FILE_ENTRIES = 10_000  # of the same: docker save writes four for each layer
IMAGE_DOCUMENT_BYTES = 4 * MIB  # one manifest or configuration
IMAGE_WORDS_BYTES = 256 * KIB  # of what it is run by, but for labels: a box has its variables twice, in one message
IMAGE_DOCUMENTS_MAX = 1_000  # that are read of one file of images: a list may name one thing any number of times
IMAGE_JAIL_BYTES = 4 * GIB  # of memory for who unpacks; a million directories take a tenth
IMAGE_LAYERS_MAX = 500  # overlay takes as many, and Docker makes no more than 127
TEMPLATES_MAX = 1_000
REGISTRY_S = 3_600.0  # one image, fetched or sent
REGISTRY_END_S = 60.0  # how long its box may take to end after that
IMAGE_INDEXES_MAX = 3  # lists of images in one another; one for machines, one for tags
