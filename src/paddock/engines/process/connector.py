"""The program in every box that connects an agent with an MCP server of its user's: standard input and output with a
socket of ours (runtime/mcpsockets.py). No box has an interpreter for certain, and a shell opens no such socket, so it
is written for those that a host with an agent on it has.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "paddock-mcp"
PLACE: Final = "/run/mcp"  # in a box; a socket for each server

_PYTHON: Final = """\
import os, socket, sys, threading
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
def up():
    try:
        while d := os.read(0, 65536): s.sendall(d)
        s.shutdown(socket.SHUT_WR)
    except OSError: pass
threading.Thread(target=up, daemon=True).start()
try:
    while d := s.recv(65536):
        while d: d = d[os.write(1, d):]
except OSError: pass
os._exit(0)
"""
_PERL: Final = """\
use Socket; $SIG{PIPE} = "IGNORE";
socket($s, PF_UNIX, SOCK_STREAM, 0) && connect($s, sockaddr_un($ARGV[0])) || die "$ARGV[0]: $!\\n";
sub copy { my ($from, $to) = @_; while (sysread($from, my $d, 65536)) {
  for (my $o = 0; $o < length $d;) { my $n = syswrite($to, $d, length($d) - $o, $o); $n or return; $o += $n } } }
my $up = fork; if (!$up) { copy(*STDIN, $s); shutdown($s, 1); exit }
copy($s, *STDOUT); kill "TERM", $up;
"""
_NODE: Final = """\
const s = require("net").connect(process.argv[1]); process.stdin.pipe(s); s.pipe(process.stdout);
s.on("close", () => process.stdin.destroy()); s.on("error", e => { console.error(String(e)); process.exit(1) })
"""


def script(place: str = PLACE) -> str:
    return f"""\
#!/bin/sh
# Connects standard input and output with an MCP server that runs in a box of its own.
if [ ! -S "{place}/$1" ]; then
  echo "error: this box has no MCP server ${{1:-without a name}}" >&2
  echo "hint: it has: $(ls {place} 2>/dev/null | tr '\\n' ' '); servers are named when a box is made: --mcp NAME" >&2
  exit 1
fi
has() {{ command -v "$1" >/dev/null 2>&1; }}
if has python3; then exec python3 -I -S -c '{_PYTHON}' "{place}/$1"; fi
if has perl; then exec perl -e '{_PERL}' "{place}/$1"; fi
if has node; then exec node -e '{_NODE}' "{place}/$1"; fi
if has socat; then exec socat -t 3600 STDIO "UNIX-CONNECT:{place}/$1"; fi
echo "error: MCP servers are connected by python3, perl, node or socat, and this box has none" >&2
exit 1
"""
