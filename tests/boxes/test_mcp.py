"""MCP servers: those of a project in the agent's box, those that a user names in boxes of their own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.installation import until
from tests.support.robots import Robot, robot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.installation import Installation
    from tests.support.origin import Origin

pytestmark = pytest.mark.box
ENGINES = contract.FULL

# A server: answers `initialize`, and any other method with what the Python expression in its params is here.
SERVER = r"""
import json, os, sys, urllib.request
def reach(url):
    try: return urllib.request.urlopen(url, timeout=10).read().decode()
    except Exception as error: return "refused: " + str(error)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "serverInfo": {"name": sys.argv[1]}, "capabilities": {}}
    else:
        result = repr(eval(asked["params"]))
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
# What an agent does: starts what its list says, initializes it, asks, and prints the answers.
CLIENT = r"""
import json, os, subprocess, sys
path, name, *asked = sys.argv[1:]
entry = json.load(open(os.path.expanduser(path)))["mcpServers"][name]
server = subprocess.Popen([entry["command"], *entry["args"]], stdin=-1, stdout=-1, text=True)
for number, params in enumerate([None, *asked]):
    method = "initialize" if params is None else "ask"
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    print(json.dumps(request), file=server.stdin, flush=True)
    answer = json.loads(server.stdout.readline())
    assert answer["id"] == number
    print(answer["result"]["serverInfo"]["name"] if params is None else answer["result"])
server.stdin.close()
sys.exit(server.wait(20))
"""
OWN = "~/.robot/mcp.json"


def servers(origin: Origin, extra: str = "") -> str:
    return f"""
[named]
command = ["python3", "-c", {json.dumps(SERVER)}, "named"]
env = {{ OF_THE_SERVER = "1" }}
allow = ["{origin.rule}"]
{extra}
[alone]
command = ["python3", "-c", {json.dumps(SERVER)}, "alone"]
[broken]
command = ["sh", "-c", "echo no such thing >&2; exit 3"]
[other]
command = ["cat"]
[web]
url = "http://{origin.rule}/mcp"
headers = {{ X-Team = "blue" }}
"""


@pytest.fixture
def agent(installation: Installation, origin: Origin) -> Iterator[Robot]:
    (installation.workspace / "client.py").write_text(CLIENT)
    with robot(installation, servers=servers(origin)) as made:
        yield made


def ask(agent: Robot, path: str, name: str, *asked: str, options: tuple[str, ...] = ()) -> list[str]:
    words = " ".join(f"'{word}'" for word in asked)
    return agent.says(f"python3 client.py {path} {name} {words}", *options).splitlines()


def test_a_server_of_the_project_runs_in_the_agents_box(agent: Robot) -> None:
    place = agent.installation.workspace
    (place / "server.py").write_text(SERVER)
    entry = {"command": "python3", "args": ["server.py", "of the project"]}
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"project": entry}}))
    answers = ask(agent, ".mcp.json", "project", 'os.environ["PADDOCK_BOX"]', 'os.path.exists("server.py")')
    assert answers == ["of the project", repr(agent.box), "True"]


def test_a_named_server_answers_from_a_box_of_its_own(agent: Robot, origin: Origin) -> None:
    """It and its agent see neither files nor variables nor the network of each other; each sees its own."""
    (agent.installation.workspace / "marker").touch()
    asked = (
        f'os.path.exists("{agent.installation.workspace}/marker")',
        'os.path.exists("/tmp/agents")',
        'sorted(set(os.environ) & {"OF_THE_SERVER", "OF_THE_AGENT"})',
        f'reach("http://localhost:{origin.port}/")',
        'open("/tmp/servers", "w").close(), open("kept", "a").write("x"), os.path.exists("/tmp/servers")',
        'os.environ["PADDOCK_BOX"], os.environ["HOME"] == os.getcwd()',
        'os.listdir("/run/mcp") if os.path.exists("/run/mcp") else None',
    )
    agent.says("touch /tmp/agents", "--mcp", "named", "-e", "OF_THE_AGENT=1")
    first, *answers = ask(agent, OWN, "named", *asked)
    assert first == "named"
    assert answers == [
        *("False", "False", "['OF_THE_SERVER']", repr("hello from the host\n"), "(None, 1, True)"),
        "('mcp-named', True)",
        "None",
    ]
    look = 'ls marker /tmp/agents; ls /tmp/servers; echo "$OF_THE_AGENT-$OF_THE_SERVER"; '
    look += f"curl -s -m 5 --noproxy '*' http://localhost:{origin.port}/ | head -c 5; find / -name kept 2>/dev/null"
    seen = agent.does(look).stdout.decode()
    assert seen.split() == ["/tmp/agents", "marker", "1-"], "its agent has its own, and nothing of the server's"
    assert ask(agent, OWN, "named", 'open("kept").read()')[1:] == ["'x'"], "what a server keeps is there the next time"


def test_only_what_was_named_is_reachable(agent: Robot) -> None:
    both = ("--name", "both", "--mcp", "named", "--mcp", "other")
    assert agent.says("ls /run/mcp; echo hello | paddock-mcp other", *both) == "named\nother\nhello\n", "the oracle"
    agent.installation.cli("rm", "-f", "both")
    listing = f'python3 -c \'import json; print(*json.load(open("{OWN}".replace("~", "/home/agent")))["mcpServers"])\''
    assert agent.says(f"ls /run/mcp; {listing}", "--mcp", "other") == "other\nother\n"
    refused = agent.does("paddock-mcp named")
    assert refused.returncode == 1
    assert b"no MCP server named" in refused.stderr
    assert agent.does("paddock-mcp other </dev/null").returncode == 0
    agent.installation.cli("rm", "-f", agent.box)
    assert agent.does("test -e /run/mcp").returncode == 1
    unknown = agent.does("true", "--name", "third", "--mcp", "nope")
    assert unknown.returncode == 2
    assert b"no MCP server 'nope'" in unknown.stderr
    assert f"{agent.installation.home}/config/mcp.toml (alone, broken, named, other, web)".encode() in unknown.stderr


def test_a_url_opens_its_host_and_is_listed_with_its_headers(agent: Robot, origin: Origin) -> None:
    fetch = " ".join(f"'{word}'" for word in origin.fetch())
    assert agent.does(fetch).stdout == b"", "the oracle: nobody opened it"
    agent.installation.cli("rm", "-f", agent.box)
    assert agent.says(fetch, "--mcp", "web", "--mcp", "alone") == "hello from the host\n"
    listed = json.loads(agent.says(f"cat {OWN}"))["mcpServers"]
    url = f"http://localhost:{origin.port}/mcp"
    assert listed["web"] == {"type": "http", "url": url, "headers": {"X-Team": "blue"}}
    assert "refused" in ask(agent, OWN, "alone", f'reach("{url}")')[1], "what its agent may reach, a server may not"
    try:
        assert agent.installation.cli("policy", "allow", "--user", origin.rule).returncode == 0
        assert agent.installation.cli("run", "--", *origin.fetch()).returncode == 0, "every box of this user may"
        assert "refused" in ask(agent, OWN, "alone", f'reach("{url}")')[1], "and a server still not"
    finally:
        assert agent.installation.cli("policy", "rm", "--user", origin.rule).returncode == 0


def test_servers_end_with_their_agent_and_are_bounded_in_number(agent: Robot) -> None:
    hold = """
import socket, sys
held = [socket.socket(socket.AF_UNIX) for _ in range(17)]
for one in held: one.connect("/run/mcp/other"); one.settimeout(30)
for one in held[:16]: one.sendall(b"x")
answers = sorted(one.recv(1) for one in held[:16]), held[16].recv(1)
print("answered", answers == ([b"x"] * 16, b""), flush=True)
sys.stdin.read()
"""
    (agent.installation.workspace / "hold.py").write_text(hold)
    agent.says("true", "--mcp", "other")
    with agent.installation.spawn("exec", "-i", agent.box, "python3", "hold.py") as holding:
        assert holding.stdout
        assert holding.stdout.readline() == b"answered True\n"
        assert agent.installation.cli("ls").stdout.count(b"mcp-other") == 16
        assert agent.installation.cli("stop", "--grace", "0s", agent.box).returncode == 0
        until(lambda: b"mcp-other" not in agent.installation.cli("ls").stdout, "every server is gone")


def test_a_server_has_its_secrets_and_its_agent_does_not(agent: Robot, origin: Origin) -> None:
    cli = agent.installation.cli
    stored = cli("secret", "set", "shop", "--host", "shop.example.com", "--env", "SHOP_KEY", stdin=b"value-of-the-key")
    assert stored.returncode == 0, stored.stderr
    try:
        extra = 'secrets = ["shop"]\nworkspace = "ro"'
        (agent.installation.home / "config/mcp.toml").write_text(servers(origin, extra))
        agent.says("true", "--mcp", "named")
        place = f"{agent.installation.workspace}/client.py"
        asked = ('len(os.environ["SHOP_KEY"]) > 15', f'os.path.exists("{place}"), os.access("{place}", os.W_OK)')
        assert ask(agent, OWN, "named", *asked, '"value-of-the-key" in str(os.environ)')[1:] == [
            *("True", "(True, False)", "False"),
        ]
        assert agent.says("echo x$SHOP_KEY") == "x\n"
        refused = agent.does("true", "--name", "masked", "--mcp", "named", "--mask", "client.py")
        assert (refused.returncode, b"what --mask hides" in refused.stderr) == (2, True)
    finally:
        cli("secret", "rm", "shop")
    missing = agent.does("true", "--name", "missing", "--mcp", "named")
    assert (missing.returncode, b"no secret 'shop'" in missing.stderr) == (2, True)


def test_a_daemon_that_was_killed_serves_them_again(own_installation: Installation) -> None:
    with robot(own_installation, servers='[other]\ncommand = ["cat"]\n') as agent:
        agent.says("true", "--mcp", "other")
        own_installation.kill_daemon()
        assert (
            own_installation.cli("exec", agent.box, "sh", "-c", "echo again | paddock-mcp other").stdout == b"again\n"
        )


def test_why_a_server_failed_is_told_at_the_end_of_the_run_or_before_the_next(agent: Robot) -> None:
    told = [agent.does("paddock-mcp broken </dev/null", "--mcp", "broken").stderr]

    def is_told() -> bool:
        told.append(agent.does("true").stderr)
        return b"the MCP server broken failed: exit code 3 no such thing" in b"".join(told)

    until(is_told, "its box has ended")


def test_the_sdk_names_servers_too(agent: Robot) -> None:
    with agent.installation.sdk() as sdk:
        box = sdk.agent(agent.name, str(agent.installation.workspace), mcp=("other",))
        assert box.info.mcp == ("other",)
        assert box.exec(["sh", "-c", "echo hello | paddock-mcp other"]).stdout == b"hello\n"


def test_a_list_that_the_agent_broke_is_left_alone_and_told(agent: Robot) -> None:
    agent.says("true", "--mcp", "other")
    for broken in ("echo { > ~/.robot/mcp.json", "cd && rm -r .robot && ln -s $PWD .robot"):
        agent.says(broken)
        agent.installation.cli("stop", agent.box)
        done = agent.does("true")
        assert (done.returncode, b"does not know of other" in done.stderr) == (0, True)
    assert not os.path.exists(agent.installation.workspace / "mcp.json")
