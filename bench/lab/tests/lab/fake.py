"""A small gateway that cheats in one way, for the tests of verdicts.

Usage: fake.py MODE HOST PORT ORIGIN_HOST ORIGIN_PORT
"""

import itertools
import os
import signal
import socket
import sys
import threading
import time

MODE, HOST, PORT, TO_HOST, TO_PORT = sys.argv[1:]
READY = b"/tollgate-lab-ready"
HUNG = 30
SPELL = range(70, 90)
cache = {}
one_at_a_time = threading.Lock()
numbers = itertools.count(1)


def read(stream, buffer):
    """Returns the next message (head, body), or None at the end, and the bytes after it."""
    while b"\r\n\r\n" not in buffer:
        data = stream.recv(65536)
        if not data:
            return None, b""
        buffer += data
    head, rest = buffer.split(b"\r\n\r\n", 1)
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)
    while len(rest) < length:
        data = stream.recv(65536)
        if not data:
            return None, b""
        rest += data
    return (head, rest[:length]), rest[length:]


def ask(origin, head):
    origin.sendall(head + b"\r\n\r\n")
    return read(origin, b"")[0]


def answer(origin, head, path):
    if path == READY:
        start, body = ask(origin, head)
        return start + b"\r\n\r\n" + body
    if MODE == "slow":
        with one_at_a_time:
            time.sleep(0.02)
    if MODE == "hang" and next(numbers) == HUNG:
        time.sleep(30)
    if MODE == "spell" and next(numbers) in SPELL:
        ask(origin, head)
        return b"HTTP/1.1 500 A bad spell\r\nContent-Length: 0\r\n\r\n"
    if MODE == "cache" and path in cache:
        return cache[path]
    if MODE == "half" and path in cache and next(numbers) % 2:
        return cache[path]
    if MODE == "twice":
        ask(origin, head)
    start, body = ask(origin, head)
    if MODE == "wrong":
        body = b"x" * len(body)
    cache[path] = start + b"\r\nX-Fake: yes\r\n\r\n" + body
    return cache[path]


def serve(client):
    try:
        with client, socket.create_connection((TO_HOST, int(TO_PORT))) as origin:
            for stream in (client, origin):
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            buffer = b""
            while True:
                request, buffer = read(client, buffer)
                if request is None:
                    return
                head = request[0]
                line, _, fields = head.partition(b"\r\n")
                path = line.split(b" ")[1]
                if MODE == "early" and path in cache:
                    client.sendall(cache[path])
                    ask(origin, head)
                else:
                    client.sendall(answer(origin, head, path))
                fields = fields.lower()
                if b"connection: close" in fields or (b"HTTP/1.0" in line and b"keep-alive" not in fields):
                    return
    except (OSError, TypeError):
        # A client or the origin has gone away.
        return


def burn():
    while True:
        pass


def generators():
    """Returns the load generators of this test: tests that run beside it have another home."""
    home = f"TOLLGATE_LAB_HOME={os.environ['TOLLGATE_LAB_HOME']}".encode()
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as line, open(f"/proc/{process}/environ", "rb") as environ:
                if line.read().endswith(b"/plan.json\0") and home in environ.read().split(b"\0"):
                    yield int(process)
        except OSError:
            pass


def freeze():
    """Stops the generator five times, for longer than a busy machine delays an answer."""
    left = 5
    while left > 0:
        for process in generators():
            try:
                os.kill(process, signal.SIGSTOP)
                time.sleep(0.4)
                os.kill(process, signal.SIGCONT)
                left -= 1
            except OSError:
                # It ended.
                pass
        time.sleep(0.4)


for mode, work in (("burn", burn), ("freeze", freeze)):
    if MODE == mode:
        threading.Thread(target=work, daemon=True).start()
with socket.create_server((HOST, int(PORT)), backlog=512) as listener:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
