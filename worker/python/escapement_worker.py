"""A worker for Escapement: a library for own handlers, and a program that offers echo, fail and delay.

It keeps revision 1 of `proto/PROTOCOL.md`; the numbers of sections below are those of that page.
`Session` keeps the protocol with one orchestrator, `Worker` has the slots and the sessions. Both live in one
event loop, so there are no locks. Each handler has a thread of its own, so nothing ever waits for a handler.
"""
import asyncio
import functools
import json
import logging
import math
import os
import random
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict

from escapement_log import LogHandler, log_to_stderr
from escapement_tls import Credentials

PROTO_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto")
sys.path.append(os.environ.get("ESCAPEMENT_PROTO_DIR") or PROTO_DIR)
pb = grpc.protos("escapement/worker/v1/session.proto")  # compiled here and now, by grpcio-tools
service = grpc.protos("escapement/worker/v1/worker_service.proto")

log = logging.getLogger("escapement")
# A clock that runs on while the machine sleeps, where there is one: a lease does too.
clock = functools.partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
TICK = 0.02  # seconds between two looks at the clock
MESSAGE_BYTES = 4 << 20
CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", MESSAGE_BYTES), ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.http2.lookahead_bytes", MESSAGE_BYTES), ("grpc.http2.bdp_probe", 0),
    ("grpc.keepalive_time_ms", 30_000), ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]

LIMIT, DRAIN, LEASE, CANCEL = 1, 2, 3, 4  # why a handler is ended; a greater reason replaces a smaller one
RELEASED = {DRAIN: pb.Released.drain, LEASE: pb.Released.lease_expired}
IDEMPOTENCY_KEY, ATTEMPT = "escapement-idempotency-key", "escapement-attempt"  # headers
FOR_GOOD = (pb.SessionError.unsupported_protocol, pb.SessionError.superseded, pb.SessionError.unauthorized)


class StepError(Exception):
    """What a handler raises to fail its step: `StepError(code, message, severity)`."""


class NotHere(StepError):
    """Raised in its place where this worker may not do the step, nothing was done, and another worker may."""


class Drop(Exception):
    """The stream is to be dropped; the text says why."""


class Refused(Exception):
    """The orchestrator does not want this worker, now and later; the text says why."""


def depth(value):
    """How many messages are nested in a value on the wire (section 10)."""
    if isinstance(value, dict):
        return 1 + max((2 + depth(item) for item in value.values()), default=0)
    if isinstance(value, (list, tuple)):
        return 1 + max((1 + depth(item) for item in value), default=0)
    return 0


def failure(code="", message="", severity="error"):
    """A Failure within the limits of section 10."""
    code, message = (str(text).encode("utf-8", "replace").decode() for text in (code, message))
    return pb.Failure(code=code if 1 <= len(code) <= 50 else "UNKNOWN_ERROR", message=message[:1000],
                      severity={"warn": 1, "error": 2, "fatal": 3}.get(severity, 0))


class Attempt:
    """One attempt in flight, as its handler sees it too. It runs until it has an `outcome`."""

    def __init__(self, assignment, now, caller=None):
        self.assignment = assignment  # the message: execution_id, step_id, attempt, environment, headers, ...
        self.cancelled = threading.Event()  # once it is set nobody wants the result: return soon
        self.token = assignment.attempt_token
        # Headers for what the handler calls, so that it is in the trace of the attempt; empty if there is none
        self.trace = {name: assignment.headers[name] for name in ("traceparent", "tracestate")
                      if assignment.headers.get(name)}
        self._caller = caller
        self.deadline = now + max(1, assignment.timeout_ms) / 1000
        self.why = 0  # why the handler is being ended
        self.result = None  # what came of the handler, once it has ended
        self.outcome = None  # what is reported; never changes

    def idempotency_key(self):
        """The key against repeats: equal for every attempt to have one effect, in runs too, and for no other (section 1)."""
        assignment = self.assignment
        return assignment.headers.get(IDEMPOTENCY_KEY) or f"{assignment.execution_id}/{assignment.step_id}"

    def run_attempt(self):
        """The number of the attempt, from 1: of the run where there is one, else of the execution's step."""
        told = self.assignment.headers.get(ATTEMPT) or ""
        return int(told) if told.isascii() and told.isdecimal() else self.assignment.attempt

    def caller(self):
        """`channel, metadata`: the API of the orchestrator that gave the attempt, in its name and in its trace."""
        channel, metadata = self._caller()
        return channel, [*(metadata or []), *self.trace.items()]


class Session:
    """The protocol with one orchestrator, over all its streams.

    `books` is the set in flight. `state` is that of the stream: down, greeting, up or leaving (section 5).
    """

    def __init__(self, worker, address):
        self.worker, self.address = worker, address
        self.wanted = True  # False for a peer that is not named any more
        self.books = {}
        self.state = "down"
        self.instance_id, self.session_id, self.boot_id = worker.instance_id, b"", b""
        self.lease_until = -math.inf
        self.dial_at, self.backoff, self.hello_number = 0.0, 0.1, 0
        self.told, self.told_at = "", -math.inf  # why there is no session, and when that was logged
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        """Dials again and again, until the worker has stopped or is refused for good."""
        worker = self.worker
        while clock() < worker.quit_at and (self.books or self.wanted and not worker.stopping):
            if clock() < self.dial_at:
                self._expire(clock())
                await asyncio.sleep(TICK)
                continue
            try:
                await self._converse()
            except Refused as refused:
                self._give_up(str(refused))
                return
            except Exception as error:
                self._tell(str(error.details() if isinstance(error, grpc.RpcError) else error))
            delay = random.uniform(0, min(60.0, self.jitter))
            if self.jitter <= 0:
                delay = random.uniform(0.5, 1) * self.backoff
                self.backoff = min(5.0, 2 * self.backoff)
            self.dial_at = clock() + delay + self.retry_after
        if not self.wanted:
            del worker.sessions[self.address]

    def _tell(self, why):
        """Logs why there is no session: when the reason changes, and once a minute."""
        if self.worker.stopping:
            log.info("%s: the session has ended: %s", self.address, why)
        elif why != self.told or clock() >= self.told_at + 60:
            log.warning("%s: no session, trying again: %s", self.address, why)
            self.told, self.told_at = why, clock()

    def _give_up(self, why):
        """Ends this session for good; the worker too where it is not that of a peer."""
        log.error("%s refuses this worker: %s", self.address, why)
        for attempt in self.books.values():
            attempt.cancelled.set()
        self.books.clear()
        if self is self.worker.first:
            self.worker.error = why
            self.worker.stop()

    async def _converse(self):
        """One stream, from its dial to its end."""
        self._open(clock())
        credentials = self.worker.credentials
        try:
            shown = credentials.metadata(self.worker.is_encrypted, self.address)
        except Exception:
            self.state = "down"  # nothing was dialled
            raise
        async with credentials.channel(self.worker.is_encrypted, self.address, CHANNEL_OPTIONS) as channel:
            session = channel.stream_stream(
                "/escapement.worker.v1.WorkerService/Session",
                lambda request: request.SerializeToString(deterministic=True),  # the same bytes each time
                service.SessionResponse.FromString)
            call = session(metadata=shown)
            reader, writer = asyncio.create_task(self._read(call)), asyncio.create_task(self._write(call))
            try:
                while not reader.done() and clock() < self.worker.quit_at:
                    self._tick(clock())
                    await asyncio.wait([reader], timeout=TICK)
                if reader.done():
                    reader.result()  # raises what has ended it
                    if self.state != "leaving":
                        raise Drop("the orchestrator has ended the stream without a word")
            finally:
                self.state = "down"
                reader.cancel()
                writer.cancel()
                await asyncio.gather(reader, writer, return_exceptions=True)

    async def _read(self, call):
        """Takes each message at once and waits for nobody."""
        async for response in call:
            self._receive(response, clock())

    async def _write(self, call):
        """Numbers and sends what is queued: outcomes, which may be large, after everything else."""
        seq = 0
        while True:
            while not (self.outbox or self.unsent):
                self.wake.clear()
                await self.wake.wait()
            request = self.outbox.popleft() if self.outbox else self._next_outcomes()
            seq += 1
            request.seq = seq
            if request.HasField("heartbeat"):
                self.beat_at = clock() + self.interval
            await call.write(request)
            if request.HasField("goodbye"):
                await call.done_writing()
                return

    # ---- What is sent ----

    def _open(self, now):
        """Begins a stream with its Hello. What was queued on the stream before is void."""
        worker = self.worker
        self.state, self.opened, self.give_up_at = "greeting", now, now + 5
        self.wake = asyncio.Event()
        self.outbox, self.unsent = deque(), deque()  # messages, and finished attempts
        self.beat_times = {}
        self.read = self.beats = self.last_assignments = 0
        self.drain_sent = self.drain_started = False
        self.reconnect_at, self.jitter, self.retry_after = math.inf, 0.0, 0.0
        worker.hellos += 1
        self.hello_number = worker.hellos
        self._send(hello=pb.Hello(
            protocol_min=1, protocol_max=1, build="escapement-worker-python",
            worker_id=worker.worker_id, instance_id=self.instance_id, hello_number=self.hello_number,
            previous_session_id=self.session_id, boot_id_seen=self.boot_id, actions=worker.actions,
            max_in_flight=0 if worker.stopping else worker.max_in_flight, in_flight=self._in_flight()))

    def _send(self, **arm):
        self.outbox.append(service.SessionRequest(**arm))
        self.wake.set()

    def _answer(self, kind, item):
        """Queues `started`, `rejected` or `stopped`, in one message with answers that still wait."""
        if not (self.outbox and self.outbox[-1].HasField("attempt_acks")):
            self._send(attempt_acks=pb.AttemptAcks())
        getattr(self.outbox[-1].attempt_acks, kind).append(item)

    def _next_outcomes(self):
        """As many outcomes as fit into a message."""
        items, room = [], self.message_max - 64
        while self.unsent:
            room -= self.unsent[0].outcome.ByteSize() + 6
            if items and room < 0:
                break
            items.append(self.unsent.popleft().outcome)
        return service.SessionRequest(outcomes=pb.Outcomes(items=items))

    def _in_flight(self):
        return [pb.InFlight(attempt_token=attempt.token, phase="finished" if attempt.outcome else "running")
                for attempt in self.books.values()]

    def _tick(self, now):
        """Does what time has made due; raises Drop where the stream is over."""
        self._expire(now)
        stopping = self.worker.stopping
        if self.state != "up":
            if now >= self.give_up_at or (self.state == "greeting" and stopping and not self.books):
                raise Drop(f"given up while {self.state}")
            return
        if now >= self.lease_until:
            raise Drop("the lease is over")
        if now >= self.beat_at:
            self.beats += 1
            self.beat_times[self.beats] = now
            self.beat_at = math.inf  # until this one is written
            together = functools.reduce(lambda a, b: a ^ int.from_bytes(b, "big"), self.books, 0)
            self._send(heartbeat=pb.Heartbeat(
                n=self.beats, in_flight=len(self.books), in_flight_hash=together.to_bytes(16, "big")))
        if stopping and not self.drain_sent:
            self.drain_sent = True
            self._send(drain=pb.Drain(deadline_ms=max(0, int(1000 * (self.worker.quit_at - now)))))
        if not self.books and (stopping and self.drain_started or now >= self.reconnect_at):
            self.state, self.give_up_at = "leaving", now + 1
            self._send(goodbye=pb.Goodbye())

    # ---- What is read ----

    def _receive(self, response, now):
        """Takes one message. Raises Drop where the stream is to end, Refused where the session is."""
        if self.state == "leaving":
            return
        self._tick(now)  # the process may have been asleep
        self.read += 1
        if response is None or response.seq != self.read:
            raise Drop("a message does not decode, or has the wrong number")
        kind = response.WhichOneof("message")
        if kind is None:
            return
        if kind != "session_error" and (kind == "welcome") != (self.state == "greeting"):
            raise Drop(f"{kind} at the wrong time")
        body = getattr(response, kind)
        items = body.verdicts if kind == "welcome" else getattr(body, "items", ())
        if any(len(item.attempt_token) != 16 for item in items):
            raise Drop(f"a token of the wrong length in {kind}")
        if kind == "welcome":
            self._welcome(body, now)
        elif kind == "heartbeat_ack":
            if body.n in self.beat_times:
                self.lease_until = max(self.lease_until, self.beat_times.pop(body.n) + self.lease)
                self.backoff = 0.1
            if body.peers:
                self.worker.set_peers(self, body.peers)
        elif kind == "assignments":
            for item in items:
                self._assign(item, now)
            self.last_assignments = response.seq
        elif kind == "outcome_acks":
            for item in items:
                if item.attempt_token in self.books and self.books[item.attempt_token].outcome:
                    del self.books[item.attempt_token]
        elif kind == "cancels":
            for item in items:
                if item.attempt_token in self.books:
                    self._end(self.books[item.attempt_token], CANCEL)
                else:
                    self._answer("stopped", item.attempt_token)
        elif kind == "snapshot_request":
            self._send(snapshot=pb.Snapshot(
                n=body.n, last_assignment_seq=self.last_assignments, in_flight=self._in_flight()))
        elif kind == "drain_started":
            if not self.worker.stopping:
                log.warning("%s: an operator drains this worker; it gets no new work", self.address)
            self.drain_started = True
        elif kind == "reconnect":
            self.reconnect_at, self.jitter = now + body.deadline_ms / 1000, body.jitter_ms / 1000
        elif kind == "session_error":
            self._session_error(body)

    def _welcome(self, welcome, now):
        restarted = self.boot_id not in (b"", welcome.boot_id)
        self.session_id, self.boot_id = welcome.session_id, welcome.boot_id
        if self is not self.worker.first and self.boot_id == self.worker.first.boot_id:
            raise Refused("it is the configured orchestrator by another name")
        self.state, self.beat_at = "up", now
        self.interval = (welcome.heartbeat_interval_ms or 3000) / 1000
        self.lease = (welcome.lease_ms or 10_000) / 1000
        self.lease_until = self.opened + self.lease
        self.told = ""
        log.info("%s: session established", self.address)
        self.message_max = min(welcome.limits.message_bytes_max or MESSAGE_BYTES, MESSAGE_BYTES)
        self.output_max = welcome.limits.output_bytes_max or 1 << 20
        for refusal in welcome.refused_actions:
            log.error("%s refuses the action %s: %s", self.address, refusal.name, refusal.reason)
        stop = {item.attempt_token for item in welcome.verdicts if item.verdict == pb.AttemptVerdict.stop}
        for attempt in list(self.books.values()):
            if attempt.outcome:
                self.unsent.append(attempt)
            else:
                self._end(attempt, CANCEL if restarted or attempt.token in stop else attempt.why)
        self.wake.set()
        self.worker.set_peers(self, welcome.peers)

    def _assign(self, assignment, now):
        worker, token, reason = self.worker, assignment.attempt_token, None
        if token in self.books:
            return self._answer("started", token)  # said again, never run again
        if worker.stopping or self.drain_started or now >= self.reconnect_at:
            reason = "draining"
        elif assignment.action not in worker.handlers:
            reason = "unknown_action"
        elif worker.free == 0:
            reason = "no_capacity"
        if reason:
            return self._answer("rejected", pb.RejectedAttempt(attempt_token=token, reason=reason))
        attempt = Attempt(assignment, now, functools.partial(
            worker.credentials.caller, worker.is_encrypted, self.address, token))
        threading.Thread(target=self._work, args=(attempt,), daemon=True).start()
        worker.free -= 1
        self.books[token] = attempt
        self._answer("started", token)

    def _session_error(self, error):
        self.retry_after = min(60.0, max(0, error.retry_after_ms) / 1000)
        if error.new_instance:  # other credentials than before: nobody takes what the old ones were given
            self.instance_id, self.session_id, self.boot_id = os.urandom(16), b"", b""
            for attempt in list(self.books.values()):
                self._end(attempt, CANCEL)
            raise Drop(" ".join(str(error).split()))
        # A peer that is this orchestrator by another name supersedes this session: no reason to end.
        later = [peer for peer in self.worker.sessions.values() if peer.hello_number > self.hello_number]
        alias = error.code == pb.SessionError.superseded and any(
            peer.state == "greeting" or peer.boot_id == self.boot_id for peer in later)
        kind = Refused if error.code in FOR_GOOD and not alias else Drop
        raise kind(" ".join(str(error).split()))

    # ---- Attempts ----

    def _expire(self, now):
        """Ends the handlers whose limit, grace or lease is over (sections 6, 7 and 11)."""
        for attempt in list(self.books.values()):
            if now >= attempt.deadline:
                self._end(attempt, LIMIT)
            if now >= self.worker.end_at:
                self._end(attempt, DRAIN)
            if now >= self.lease_until:
                self._end(attempt, LEASE)

    def _end(self, attempt, why):
        """Ends a handler, and does what follows once it has ended. After its limit a cancel is awaited."""
        if attempt.outcome:
            return
        attempt.why = max(attempt.why, why)
        if attempt.why:
            attempt.cancelled.set()
        if attempt.result is None or attempt.why == LIMIT:
            return
        if attempt.why == CANCEL:
            if self.state == "up":  # else it is said after the next Welcome
                del self.books[attempt.token]
                self._answer("stopped", attempt.token)
            return
        if attempt.why:
            attempt.result.released.reason = RELEASED[attempt.why]
        attempt.outcome = attempt.result
        if self.state == "up":
            self.unsent.append(attempt)
            self.wake.set()

    def _work(self, attempt):
        """Runs one handler, in its thread, and hands over what came of it."""
        result = pb.AttemptOutcome(attempt_token=attempt.token)
        began = clock()
        try:
            if began < min(attempt.deadline, self.lease_until) and not attempt.cancelled.is_set():
                handler = self.worker.handlers[attempt.assignment.action]
                output = handler(MessageToDict(attempt.assignment.payload), attempt) or {}
                if depth(output) > 90:
                    raise ValueError("the output is nested too deep")
                result.success.output.SetInParent()  # there is one even where it is empty
                ParseDict(output, result.success.output)
                if result.success.output.ByteSize() > self.output_max:
                    raise StepError("RESOURCE_EXHAUSTED", "the output is too large", "fatal")
        except StepError as error:
            result.failure.CopyFrom(failure(*error.args[:3]))
            result.failure.not_here = isinstance(error, NotHere)
        except BaseException as error:
            # Where it failed and not what it said, which may hold the payload.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("the handler of %r failed with %s\n%s", attempt.assignment.action, type(error).__name__, where)
            result.failure.CopyFrom(failure("UNKNOWN_ERROR", f"{type(error).__name__}: {error}", "fatal"))
        result.run_time_ms = int(1000 * (clock() - began))
        if result.ByteSize() + 64 > self.message_max:
            result.failure.CopyFrom(failure("RESOURCE_EXHAUSTED", "the outcome is too large", "fatal"))
        self.worker.loop.call_soon_threadsafe(self._ended, attempt, result)

    def _ended(self, attempt, result):
        self.worker.free += 1
        self._expire(clock())  # what was over before wins
        attempt.result = result
        if attempt.token in self.books:
            self._end(attempt, attempt.why)


def spec_of(name, run):
    """What the orchestrator is told of a handler: its documentation, and if it has them `run.input_schema`, a JSON Schema of its
    payload, and `run.traits`, an `ActionTraits` as JSON."""
    spec = pb.ActionSpec(name=name, description=run.__doc__)
    if getattr(run, "input_schema", None):
        spec.input_schema = json.dumps(run.input_schema)
    if getattr(run, "traits", None):
        ParseDict(run.traits, spec.traits)
    return spec


class Worker:
    """Runs `handlers`, functions `(payload, attempt) -> dict`, for an orchestrator and its peers."""

    def __init__(self, address, handlers, *, credentials=None, max_in_flight=32, drain_grace_ms=30_000):
        self.address, self.handlers, self.grace = address, handlers, drain_grace_ms / 1000
        self.credentials = credentials or Credentials()
        if problem := self.credentials.problem(address):
            raise ValueError(problem)
        self.scheme = address.split("//")[0] + "//"  # its peers keep it
        self.is_encrypted = self.scheme == "https://"
        self.actions = [spec_of(name, run) for name, run in handlers.items()]
        self.max_in_flight = self.free = max_in_flight
        self.worker_id = f"{socket.gethostname()}-{os.getpid()}"
        self.instance_id, self.hellos = os.urandom(16), 0
        self.sessions, self.first = {}, None
        self.stopping, self.error = False, ""
        self.end_at = self.quit_at = math.inf  # when handlers are ended, and when nothing is awaited any more

    def run(self):
        """Works until SIGTERM, SIGINT or SIGHUP has come and all is answered. Returns why it was refused, or ''.

        Its warnings go to stderr where the program has set up no logging.
        """
        if not log.hasHandlers():  # else the module's handler of last resort would wait for stderr
            log.addHandler(LogHandler())
        asyncio.run(self._run())
        return self.error

    async def _run(self):
        self.loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.loop.add_signal_handler(number, self.stop)
        address = self.address.removeprefix(self.scheme).rstrip("/")
        self.first = self.sessions[address] = Session(self, address)
        while tasks := [session.task for session in self.sessions.values() if not session.task.done()]:
            await asyncio.gather(*tasks)

    def stop(self):
        """Begins to drain (section 11)."""
        if not self.stopping:
            log.info("the worker stops")
        self.stopping = True
        self.end_at = min(self.end_at, clock() + self.grace)
        self.quit_at = self.end_at + 6  # 1 s for the handlers to end, 5 s for the last answers

    def set_peers(self, session, peers):
        """Keeps a session with all that the first one names. Names may differ, so its word alone counts."""
        if session is not self.first or self.stopping:
            return
        peers = [peer.removeprefix(self.scheme).rstrip("/") for peer in peers if peer.startswith(self.scheme)]
        wanted = {*peers} - {""} | {session.address}
        for other in self.sessions.values():
            other.wanted = other.address in wanted
        for address in wanted - set(self.sessions):
            self.sessions[address] = Session(self, address)


# ---- The program (section 17) ----

def echo(payload, attempt):
    """Returns its payload."""
    return payload


def fail(payload, attempt):
    """Fails with the code, the message and the severity of its payload, for any worker or for this one only.

    Succeeds from `succeed_on_attempt` on.
    """
    if attempt.run_attempt() >= payload.get("succeed_on_attempt", math.inf):
        return {"attempt": attempt.run_attempt(), "idempotency_key": attempt.idempotency_key()}
    error = NotHere if payload.get("not_here") else StepError
    raise error(payload.get("code", ""), payload.get("message", ""), payload.get("severity", "error"))


def delay(payload, attempt):
    """Sleeps for `ms`, or until it is cancelled."""
    began = clock()
    attempt.cancelled.wait(payload.get("ms", 0) / 1000)
    return {"elapsed_ms": int(1000 * (clock() - began))}


for handler in (echo, fail, delay):
    handler.traits = {"effect": "pure", "risk": "safe", "idempotent": True}


if __name__ == "__main__":
    log_to_stderr()
    try:
        worker = Worker(os.environ.get("ESCAPEMENT_ORCHESTRATOR") or "http://127.0.0.1:7400",
                        {"echo": echo, "fail": fail, "delay": delay}, credentials=Credentials.from_environment(),
                        drain_grace_ms=int(os.environ.get("ESCAPEMENT_DRAIN_GRACE_MS") or 30_000))
    except ValueError as wrong:
        log.error("%s", wrong)
        sys.exit(64)
    sys.exit(worker.run() or 0)
