"""Ways around the gateway that are closed. Each act works outside the box, in the same internet, or with a rule."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import contract
from tests.support.internet import OTHER, PUBLIC

if TYPE_CHECKING:
    from tests.support.internet import Online

pytestmark = pytest.mark.box
ENGINES = contract.WITH_GVISOR

ALLOWED = ("--allow-host", "allowed.example")
PYTHON = "/usr/bin/python3"
# What a program sees of a connection: `data ...` when the origin answered, otherwise how it was refused.
TALK = """
import socket, ssl, sys
def talk(host, port, data, family=socket.AF_UNSPEC):
    try:
        kind, _, _, _, where = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0]
        with socket.socket(kind) as sock:
            sock.settimeout(15)
            sock.connect(where)
            if data: sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            answer = b""
            while part := sock.recv(65536): answer += part
            return "data " + answer.decode("latin-1")
    except OSError as error:
        return f"refused {error}"
def get(host, path="/p"):
    return f"GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n".encode()
"""


def inside(online: Online, code: str, *options: str) -> str:
    done = online.cli("run", *options, "--", PYTHON, "-c", TALK + code)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def outside(online: Online, code: str) -> str:
    done = online.internet.run([PYTHON, "-c", TALK + code])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


# -- other ways than TCP by name ---------------------------------------------------------------------------------------

UDP = """
import socket
for family, where in ((socket.AF_INET, ("93.184.215.14", 443)), (socket.AF_INET, ("93.184.215.14", 5353)),
                      (socket.AF_INET, ("224.0.0.251", 5353))):
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"x", where)
            sock.settimeout(0.2)
            try: sock.recv(10)
            except TimeoutError: pass
        print("sent")
    except OSError as error:
        print("refused", error.strerror)
"""


@pytest.mark.parametrize("options", [ALLOWED, ("--policy", "allow"), ("--policy", "observe")])
def test_datagrams_are_refused_at_once(online: Online, options: tuple[str, ...]) -> None:
    lines = inside(online, UDP, *options).splitlines()
    assert [line.split()[0] for line in lines] == ["refused"] * 3
    assert outside(online, UDP).splitlines()[:2] != lines[:2]


def test_an_address_is_no_way_around_a_name(online: Online) -> None:
    code = f"print(talk('{PUBLIC}', 80, get('allowed.example')))"
    assert outside(online, code).startswith("data HTTP/1.1 200")
    assert "HTTP/1.1 200" not in inside(online, code, *ALLOWED)
    assert inside(online, code, "--allow-host", PUBLIC).startswith("data HTTP/1.1 200")


def test_the_internet_protocol_of_the_host_is_not_the_boxs(online: Online) -> None:
    """A name with nothing but an IPv6 address works, because the gateway dials; that address itself does not."""
    assert '"path": "/p"' in inside(
        online, "print(talk('six.example', 80, get('six.example')))", "--allow-host", "six.example"
    )
    literal = "print(talk('2606:2800:21f:cb07:6820:80da:af6b:8b2c', 80, get('six.example')))"
    assert outside(online, literal).startswith("data HTTP/1.1 200")
    assert inside(online, literal, "--allow-host", "six.example").startswith("refused")


SPELLINGS = ["127.1", "0x7f.1", "017700000001", "2130706433", "0", "127.0.0.1.", "[::ffff:127.0.0.1]", "localhost."]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_loopback_reaches_the_host(online: Online, spelling: str) -> None:
    bare = spelling.strip("[]")
    assert "HTTP/1.1 200" not in inside(online, f"print(talk({bare!r}, 8080, get('x')))", "--policy", "allow")
    connect = f"CONNECT {spelling}:8080 HTTP/1.1\\r\\nHost: {spelling}:8080\\r\\n\\r\\n"
    code = f"print(talk('gateway.paddock', 3128, b'{connect}'))"
    assert " 200 " not in inside(online, code, "--policy", "allow")


@pytest.mark.parametrize("name", ["private.example", "loopback.example", "metadata.example"])
def test_a_name_that_leads_to_a_private_address_is_refused(online: Online, name: str) -> None:
    code = f"print(talk('{name}', 80, get('{name}')))"
    assert outside(online, code).startswith("data HTTP/1.1 200")
    for options in (("--allow-host", name), ("--policy", "allow"), ("--allow-host", "*")):
        answer = inside(online, code, *options)
        assert "HTTP/1.1 200" not in answer, options
        assert "403" in answer
    opened = inside(
        online,
        code,
        "--allow-host",
        name,
        "--allow-cidr",
        "10.0.0.0/8",
        "--allow-cidr",
        "169.254.169.254/32",
        "--allow-cidr",
        "127.0.0.0/8",
    )
    assert opened.startswith("data HTTP/1.1 200")


@pytest.mark.parametrize("address", ["169.254.169.254", "10.20.30.40"])
def test_metadata_services_and_private_hosts_are_refused_in_the_most_open_policy(online: Online, address: str) -> None:
    code = f"print(talk('{address}', 80, get('{address}')))"
    assert outside(online, code).startswith("data HTTP/1.1 200")
    assert "HTTP/1.1 200" not in inside(online, code, "--policy", "allow")


def test_of_mixed_answers_only_the_public_one_is_dialled(online: Online) -> None:
    answer = inside(online, "print(talk('mixed.example', 80, get('mixed.example')))", "--allow-host", "mixed.example")
    assert f'"address": "{PUBLIC}"' in answer


def test_a_rebound_name_is_dialled_at_the_address_that_was_checked_or_not_at_all(online: Online) -> None:
    online.internet.name("turning.example", [PUBLIC], ["127.0.0.1"])
    code = "for _ in range(4): print(json.dumps(talk('turning.example', 80, get('turning.example'))))"
    answers = [json.loads(line) for line in inside(online, "import json\n" + code, "--policy", "allow").splitlines()]
    assert len(answers) == 4
    assert f'"address": "{PUBLIC}"' in answers[0]
    assert not any('"address": "127.0.0.1"' in answer for answer in answers)


# -- names -------------------------------------------------------------------------------------------------------------


def test_nothing_of_a_denied_name_leaves_the_host(online: Online) -> None:
    before = len(online.internet.queries())
    code = """
for n in range(200):
    socket.gethostbyname(f"secret{n}.tunnel.example")
print("asked")
"""
    assert inside(online, code, *ALLOWED) == "asked\n"  # each gets the refusal address
    assert online.internet.queries()[before:] == []
    online.internet.name("fresh.example", [PUBLIC])  # the oracle: what is allowed, and nobody knows yet, is asked for
    inside(online, "print(talk('fresh.example', 80, get('fresh.example')))", "--allow-host", "fresh.example")
    assert set(online.internet.queries()[before:]) == {"fresh.example"}


def test_under_an_allowed_zone_names_are_only_resolved_when_they_are_dialled(online: Online) -> None:
    before = len(online.internet.queries())
    code = "for n in range(50): socket.gethostbyname(f'secret{n}.allowed.example')"
    inside(online, code, "--allow-host", "*.allowed.example")
    assert online.internet.queries()[before:] == []


QUERY = """
import struct
def ask(kind, name=b"\\x07allowed\\x07example\\x00", klass=1):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        head = struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0)
        sock.sendto(head + name + struct.pack(">HH", kind, klass), ("8.8.8.8", 53))
        reply = sock.recv(4096)
        return reply[3] & 15, struct.unpack(">H", reply[6:8])[0]
"""


@pytest.mark.parametrize(("kind", "expected"), [(1, (0, 1)), (28, (0, 0)), (16, (5, 0)), (255, (5, 0)), (65, (5, 0))])
def test_only_addresses_are_answered(online: Online, kind: int, expected: tuple[int, int]) -> None:
    """A answers, AAAA has no data, TXT, ANY and HTTPS are refused; whichever server was asked."""
    rcode, count = json.loads(inside(online, QUERY + f"print(list(ask({kind})))", *ALLOWED))
    if kind in {1, 28}:
        assert (rcode, count) == expected
    else:
        assert (rcode != 0 or count == 0, count) == (True, 0)


# -- the wrong host inside a right connection --------------------------------------------------------------------------

FRONTED = """
def fronted(name, sni):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((name, 443), 15) as raw, context.wrap_socket(raw, server_hostname=sni) as sock:
            sock.sendall(get(sni or name))
            answer = b""
            while part := sock.recv(65536): answer += part
            return answer.decode("latin-1")
    except OSError as error:
        return f"refused {error}"
"""


def test_a_server_name_other_than_the_dialled_one_is_refused(online: Online) -> None:
    same = FRONTED + "print(fronted('allowed.example', 'allowed.example'))"
    other = FRONTED + "print(fronted('allowed.example', 'other.example'))"
    none = FRONTED + "print(fronted('allowed.example', None))"
    assert "HTTP/1.1 200" in outside(online, other)
    assert "HTTP/1.1 200" in outside(online, none)
    assert "HTTP/1.1 200" in inside(online, same, *ALLOWED)
    for code in (other, none):
        assert "HTTP/1.1 200" not in inside(online, code, *ALLOWED)
        assert "HTTP/1.1 200" in inside(online, code, "--bypass-host", "allowed.example")


def test_every_request_on_a_connection_must_name_its_host(online: Online) -> None:
    pipelined = (
        "GET /one HTTP/1.1\\r\\nHost: allowed.example\\r\\n\\r\\n"
        "GET /two HTTP/1.1\\r\\nHost: other.example\\r\\nConnection: close\\r\\n\\r\\n"
    )
    code = f"print(talk('allowed.example', 80, b'{pipelined}'))"
    assert outside(online, code).count('"path"') == 2
    answer = inside(online, code, *ALLOWED)
    assert '"/one"' in answer
    assert '"/two"' not in answer


# A bar stands for the end of a line.
SMUGGLED = {
    "two lengths": "POST /p HTTP/1.1|Host: allowed.example|Content-Length: 5|Content-Length: 6||hello",
    "length and chunks": "POST /p HTTP/1.1|Host: allowed.example|Content-Length: 5|Transfer-Encoding: chunked||0||",
    "bare line feeds": "GET /p HTTP/1.1\\nHost: allowed.example\\n\\n",
    "a folded header": "GET /p HTTP/1.1|Host: allowed.example|X-A: b| c|Connection: close||",
    "two hosts": "GET /p HTTP/1.1|Host: allowed.example|Host: other.example||",
    "another authority": "GET http://other.example/p HTTP/1.1|Host: allowed.example|Connection: close||",
    "no host": "GET /p HTTP/1.1|Connection: close||",
}


@pytest.mark.parametrize("kind", SMUGGLED)
def test_an_ambiguous_request_reaches_no_origin(online: Online, kind: str) -> None:
    data = SMUGGLED[kind].replace("|", "\\r\\n")
    code = f"print(talk('allowed.example', 80, b'{data}'))"
    good = "print(talk('allowed.example', 80, get('allowed.example')))"
    answer = inside(online, code, *ALLOWED)
    assert '"path"' not in answer
    assert '"path": "/p"' in inside(online, good, *ALLOWED)


def test_no_upgrade_but_websocket_is_offered_to_an_origin(online: Online) -> None:
    request = (
        "GET /p HTTP/1.1|Host: allowed.example|Connection: Upgrade, HTTP2-Settings|Upgrade: h2c|HTTP2-Settings: AA||"
    )
    data = request.replace("|", "\\r\\n")
    code = f"print(talk('allowed.example', 80, b'{data}'))"
    assert "h2c" in outside(online, code)
    assert "h2c" not in inside(online, code, *ALLOWED)


# -- the explicit proxy ------------------------------------------------------------------------------------------------

PROXIED = """
def through(target, then=b""):
    with socket.create_connection(("gateway.paddock", 3128), 15) as sock:
        sock.settimeout(15)
        sock.sendall(f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode())
        head = b""
        while b"\\r\\n\\r\\n" not in head:
            part = sock.recv(65536)
            if not part: return "ended " + head.decode("latin-1")
            head += part
        if b" 200 " not in head: return "refused " + head.decode("latin-1")
        if then:
            sock.sendall(then)
            sock.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while then and (part := sock.recv(65536)): answer += part
        except OSError as error:
            answer += str(error).encode()
        return "data " + answer.decode("latin-1")
"""


def test_the_proxy_gives_the_same_verdicts(online: Online) -> None:
    allowed = PROXIED + "print(through('allowed.example:80', get('allowed.example')))"
    assert '"path": "/p"' in inside(online, allowed, *ALLOWED)
    denied = PROXIED + "print(through('other.example:80', get('other.example')))"
    answer = inside(online, denied, *ALLOWED)
    assert '"path"' not in answer
    assert "403" in answer
    assert "paddock policy allow" in answer


@pytest.mark.parametrize(
    "target", ["gateway.paddock:3128", "198.18.0.1:3128", "host.docker.internal:3128", "127.0.0.1:3128"]
)
def test_a_proxy_inside_the_proxy_is_refused(online: Online, target: str) -> None:
    nested = "CONNECT other.example:80 HTTP/1.1\\r\\nHost: other.example:80\\r\\n\\r\\n"
    answer = inside(online, PROXIED + f"print(through('{target}', b'{nested}'))", "--policy", "allow")
    assert not answer.startswith("data HTTP/1.1 200")


def test_socks_resolves_by_name_and_obeys(online: Online) -> None:
    for host, works in (("allowed.example", True), ("other.example", False)):
        words = ("curl", "-sS", "-m", "15", "--socks5-hostname", "gateway.paddock:3128", f"http://{host}/p")
        done = online.cli("run", *ALLOWED, "--", *words)
        assert (b'"path": "/p"' in done.stdout) is works, (done.stdout, done.stderr)


def test_an_entry_in_the_boxs_own_hosts_file_changes_nothing(online: Online) -> None:
    """The name on the wire decides, not where the box thinks it is."""
    words = ("curl", "-sS", "-m", "15", "--resolve", f"allowed.example:80:{OTHER}", "http://allowed.example/p")
    assert b'"path": "/p"' in online.internet.run(words).stdout
    done = online.cli("run", *ALLOWED, "--", *words)
    assert b'"path"' not in done.stdout
