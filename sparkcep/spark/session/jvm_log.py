"""Forwards the output of a command's JVM to standard error, without the lines that every start of Java prints.

``spark/session/local`` uses it for sessions that belong to a command.
"""

from __future__ import annotations

import atexit
import os
import re
import select
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.clientserver import ClientServer
    from pyspark import SparkConf

# Java's option for a JVM that logs errors only. The file is named by a URL, since Spark splits options at spaces, and Log4j splits
# names at commas.
ERRORS_ONLY = f"-Dlog4j2.configurationFile={(Path(__file__).parents[1] / 'log4j2.properties').as_uri()}"

# The first comes from a module that Spark's scripts add, the second from JAVA_TOOL_OPTIONS and similar variables.
_OF_EACH_START = re.compile(rb"WARNING: Using incubator modules|Picked up \w+: ")
_LAST_SECONDS = 1.0  # how long the end of the process waits for output that is already written


def launch(conf: SparkConf, verbose: bool) -> ClientServer:
    """Starts a JVM for PySpark. Its standard output goes to standard error, so standard output belongs to the command alone.

    With ``verbose`` no line is left out.
    """
    from pyspark.java_gateway import launch_gateway

    if os.name != "posix":  # elsewhere a program cannot see whether a pipe is empty
        return launch_gateway(conf)
    reading, writing = os.pipe()
    output = _Output(reading, verbose)
    threading.Thread(target=output.pass_on, name="sparkcep JVM output", daemon=True).start()
    atexit.register(output.wait)
    try:
        return launch_gateway(conf, popen_kwargs={"stdout": writing, "stderr": writing})
    finally:
        os.close(writing)


class _Output:
    """The reading end of a pipe.

    The lock is held while output is copied. So if a thread holds the lock and finds the pipe empty, all output has been copied.
    """

    def __init__(self, reading: int, verbose: bool) -> None:
        self.reading = reading
        self.verbose = verbose
        self.ended = False
        self.lock = threading.Lock()

    def pass_on(self) -> None:
        """Copies the output to standard error, line by line, until the JVM has ended."""
        rest = b""
        while not self.ended:
            select.select([self.reading], [], [])
            with self.lock:
                got = os.read(self.reading, 1 << 16)
                self.ended = not got
                *lines, rest = (rest + got).split(b"\n")
                lines += [rest] if self.ended and rest else []
                text = b"".join(line + b"\n" for line in lines if self.verbose or not _OF_EACH_START.match(line))
                sys.stderr.write(text.decode("utf-8", "replace"))
                sys.stderr.flush()

    def wait(self) -> None:
        """Waits until all output that the JVM has written so far is copied, at most ``_LAST_SECONDS``."""
        until = time.monotonic() + _LAST_SECONDS
        while time.monotonic() < until:
            with self.lock:
                if self.ended or not select.select([self.reading], [], [], 0)[0]:
                    return
            time.sleep(0.005)
