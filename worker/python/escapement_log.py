"""Log lines on stderr that nothing ever waits for."""
import logging
import os
import queue
import sys
import threading
import time


class LineFormatter(logging.Formatter):
    """Formats a record so that what others chose, such as the name of an action, looks like no line of its own."""

    def formatMessage(self, record):
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, exc_info):
        lines = super().formatException(exc_info).split("\n")
        return "\n".join("  | " + escaped(line) for line in lines)


def escaped(text):
    """The text without control characters: a line feed, or what steers a terminal."""
    return "".join(c if c.isprintable() or ord(c) > 0x9f else ascii(c)[1:-1] for c in text)


class LogHandler(logging.Handler):
    """Writes lines to stderr from a thread of its own: a log that is slow, full or gone harms nothing.

    Lines that do not fit into the queue, or that stderr does not take, are dropped and counted.
    """

    def __init__(self):
        super().__init__()
        self.setFormatter(LineFormatter("%(asctime)s %(levelname)s %(message)s"))
        self.lines, self.lost = queue.Queue(1000), 0
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record):
        try:
            self.lines.put_nowait(self.format(record)[:10_000] + "\n")
        except queue.Full:
            self.lost += 1

    def flush(self):
        """Waits until all is written, for a second at most."""
        until = time.monotonic() + 1
        while self.lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)

    def _write(self):
        while True:
            line = self.lines.get()
            try:
                if sys.stderr is not None:  # else its number may belong to a socket
                    self._put(line)
                    if self.lost:
                        lost, self.lost = self.lost, 0
                        self._put(f"{lost} lines of the log were lost\n")
            except OSError:
                self.lost += 1
            self.lines.task_done()

    @staticmethod
    def _put(line):
        data = line.encode("utf-8", "replace")
        while data:
            data = data[os.write(2, data):]


def log_to_stderr(level=logging.INFO):
    """Shows what the worker does on stderr, without ever waiting for it. Programs that log by themselves leave it out."""
    logging.basicConfig(level=level, handlers=[LogHandler()])
