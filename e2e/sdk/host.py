"""Runs Python drivers, each in a process of its own that is forked from this one, so that an SDK is imported once for all of them: that takes
seconds. The first argument is the path of a socket to listen on. Each connection brings one run, as a JSON object in a line: the script, its
args and env, the files for its stdout and stderr, and after how many seconds it is ended. The answer is its exit status, a signal's as a negative
number. Ends when its standard input does."""

import ast
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import ssl
import sys

import certifi

HERE = os.path.dirname(os.path.abspath(__file__))

# Each client would read the roots of TLS again, for 50 ms, though the gateway's URL is http. With a file that the environment names, all of
# them read them by this function.
ROOTS = certifi.where()
ssl.create_default_context = functools.cache(ssl.create_default_context)
ssl.create_default_context(cafile=ROOTS)


@functools.cache
def preload(script):
    """Imports what a script imports anywhere, but for modules beside it: they read their run's environment."""
    with open(script, encoding="utf-8") as f:
        nodes = list(ast.walk(ast.parse(f.read())))
    names = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    names += [name for n in nodes if isinstance(n, ast.ImportFrom) for name in (n.module, *(f"{n.module}.{alias.name}" for alias in n.names))]
    for name in names:
        if os.path.exists(os.path.join(HERE, name.partition(".")[0] + ".py")):
            continue
        try:
            importlib.import_module(name)
        except ImportError:  # a name in a module, or what the script itself reports
            pass


def redirect(stdout, stderr):
    for fd, name in enumerate((os.devnull, stdout, stderr)):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), fd)


def become(run):
    """Makes this process the run's own."""
    redirect(run["stdout"], run["stderr"])
    os.environ.clear()
    os.environ |= {"SSL_CERT_FILE": ROOTS, **run["env"]}
    sys.argv = [run["script"], *run["args"]]
    signal.alarm(run["seconds"])
    runpy.run_path(run["script"], run_name="__main__")


def serve(connection, run):
    """Waits for the run in a process beside it. Returns in the run's own process when it is over."""
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(run)
        return
    redirect(os.devnull, os.devnull)  # who reads this process's output must not wait for the run when this process was killed
    _, status = os.waitpid(pid, 0)
    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(64)
    print("listening", flush=True)
    waiters = set()
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        run = json.loads(connection.makefile().readline())
        preload(run["script"])
        gc.freeze()  # what is imported stays shared
        waiter = os.fork()
        if waiter == 0:
            listener.close()
            return serve(connection, run)
        connection.close()
        waiters = {pid for pid in waiters | {waiter} if os.waitpid(pid, os.WNOHANG) == (0, 0)}


main()
