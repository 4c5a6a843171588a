"""How the worker in Python comes to its orchestrators: encrypted or not, and what it shows. Opens no connection."""

import base64
import ipaddress
import os
import zlib
from urllib.parse import urlsplit

import grpc


class Credentials:
    """Whom to trust and what to show. Files are read at every connect, so what replaces them counts from the next one on."""

    def __init__(self, *, token="", token_file="", tls_ca="", tls_cert="", tls_key="", tls_server_name="",
                 allow_plaintext=False):
        self.token, self.token_file, self.allow_plaintext = token, token_file, allow_plaintext
        self.ca, self.cert, self.key, self.server_name = tls_ca, tls_cert, tls_key, tls_server_name

    @classmethod
    def from_environment(cls):
        """As the variables say, which are those of the stock worker."""
        names = ("token", "token_file", "tls_ca", "tls_cert", "tls_key", "tls_server_name")
        given = {name: os.environ.get(f"ESCAPEMENT_{name.upper()}") or "" for name in names}
        allowed = (os.environ.get("ESCAPEMENT_ALLOW_PLAINTEXT") or "").lower() in ("1", "true", "yes", "on", "y", "t")
        return cls(allow_plaintext=allowed, **given)

    def problem(self, url):
        """Why this address cannot be dialled so, or ''."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return f"{url!r} is no URL such as https://127.0.0.1:7400"
        if bool(self.cert) != bool(self.key):
            return "a certificate and its key are given together or not at all"
        if parts.scheme == "https":
            return ""
        if self.ca or self.cert or self.server_name:
            return f"certificates are for https://, and the orchestrator is {url}"
        if (self.token or self.token_file) and not self.may_show_secrets(False, parts.netloc):
            return f"a token is not sent unencrypted to {url}, which other machines can read"
        return ""

    def channel(self, is_encrypted, address, options):
        """A channel to HOST:PORT by what the files hold now. Raises OSError where one cannot be read."""
        if not is_encrypted:
            return grpc.aio.insecure_channel(address, options=options)
        shown = grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))
        if self.server_name:
            options = [*options, ("grpc.ssl_target_name_override", self.server_name)]
        return grpc.aio.secure_channel(address, shown, options=options)

    def caller(self, is_encrypted, address, token):
        """A channel for the calls of a handler, on any thread, and the metadata that shows the credential of its attempt.

        To another machine in clear it shows none, unless plaintext is allowed.
        """
        if is_encrypted:
            shown = grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))
            options = [("grpc.ssl_target_name_override", self.server_name)] if self.server_name else None
            return grpc.secure_channel(address, shown, options=options), attempt_metadata(token)
        may_show = self.may_show_secrets(is_encrypted, address)
        return grpc.insecure_channel(address), attempt_metadata(token) if may_show else None

    def metadata(self, is_encrypted, address):
        """What goes with each call to HOST:PORT. The file beats the text.

        Raises ValueError where others could read the token on the way: a peer that the orchestrator names is judged as the configured
        address is.
        """
        token = read(self.token_file).decode().strip() if self.token_file else self.token
        if token and not self.may_show_secrets(is_encrypted, address):
            raise ValueError(f"a token is not sent unencrypted to {address}, which other machines can read")
        return [("authorization", f"Bearer {token}")] if token else None

    def may_show_secrets(self, is_encrypted, address):
        """True if nobody on the way to HOST:PORT reads what is sent, or the program allows it."""
        return is_encrypted or self.allow_plaintext or is_loopback(urlsplit(f"http://{address}").hostname)


def attempt_metadata(token):
    """The credential of an attempt (section 10)."""
    def text(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")
    bearer = b"esa_" + text(token)
    bearer += text(zlib.crc32(bearer).to_bytes(4, "big"))
    return [("authorization", f"Bearer {bearer.decode()}")]


def read(file):
    """What a file holds; None where none is named."""
    if not file:
        return None
    with open(file, "rb") as opened:
        return opened.read()


def is_loopback(host):
    """True for the machine itself, as far as the name says so."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
