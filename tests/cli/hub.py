"""A server that plays the Hugging Face hub for the tests of --fetch: what each repository does is in REPOSITORIES."""
import http.server
import json
import os
import re
import struct
import threading

HERE = os.path.dirname(os.path.abspath(__file__))


def config(name):
    with open(os.path.join(HERE, "models", name, "config.json"), "rb") as file:
        return file.read()


# one tensor of 2^30 bytes: the header alone is ever sent
HEADER = json.dumps({"model.embed_tokens.weight": {"dtype": "BF16", "shape": [65536, 8192],
                                                   "data_offsets": [0, 1 << 30]}}).encode()
SAFETENSORS = struct.pack("<Q", len(HEADER)) + HEADER
INDEX = json.dumps({"metadata": {"total_size": 13761264768}, "weight_map": {"a": "model-00001-of-00001.safetensors"}})


def answer(code, body=b"", **headers):
    return code, body, headers


def gated(request):
    if request.headers.get("Authorization") == "Bearer good-token":
        return answer(200, config("gpt-oss-20b"))
    return answer(401, b'{"error": "restricted"}')


def without_token(request):
    """for the other host of a redirect: a token must not come along"""
    if request.headers.get("Authorization") is not None:
        return answer(500, b"a token came to a host that it is not for")
    return answer(200, config("gpt-oss-20b"))


def ranged(request):
    match = re.fullmatch(r"bytes=0-(\d+)", request.headers.get("Range", ""))
    if not match:
        return answer(500, b"a range was expected")
    part = SAFETENSORS[:int(match.group(1)) + 1] + bytes(max(0, int(match.group(1)) + 1 - len(SAFETENSORS)))
    whole = len(SAFETENSORS) + (1 << 30)
    return answer(206, part, **{"Content-Range": "bytes 0-%d/%d" % (len(part) - 1, whole)})


def cut_short(request):
    return answer(200, b"{}", **{"Content-Length": "1000"})


# repository -> file -> what is sent for it; a callable gets the request
REPOSITORIES = {
    "org/good": {"config.json": answer(200, config("gpt-oss-20b"))},
    "org/sharded": {"config.json": answer(200, config("gpt-oss-20b")),
                    "model.safetensors.index.json": answer(200, INDEX.encode())},
    "org/single": {"config.json": answer(200, config("gpt-oss-20b")), "model.safetensors": ranged},
    "org/no-ranges": {"config.json": answer(200, config("gpt-oss-20b")),
                      "model.safetensors": answer(200, bytes(2 << 20))},
    "org/gated": {"config.json": gated},
    "org/loop": {"config.json": lambda request: answer(302, Location=request.path)},
    "org/moved": {"config.json": lambda request: answer(307, Location="/org/good/resolve/main/config.json")},
    "org/elsewhere": {"config.json": lambda request: answer(
        302, Location="http://localhost:%d/org/no-token/resolve/main/config.json" % request.server.other)},
    "org/no-token": {"config.json": without_token},
    "org/to-file": {"config.json": answer(302, Location="file:///etc/hostname")},
    "org/large": {"config.json": answer(200, b" " * (17 << 20))},
    "org/page": {"config.json": answer(200, b"\n<!DOCTYPE html><html></html>", **{"Content-Type": "text/html"})},
    "org/noise": {"config.json": answer(200, bytes(range(256)))},
    "org/empty": {"config.json": answer(200, b"")},
    "org/cut-short": {"config.json": cut_short},
    "org/ill": {"config.json": answer(503, b"later")},
}
REVISIONS = {"main": "org/good", "refs%2Fpr%2F1": "org/sharded"}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # the name is http.server's
        match = re.fullmatch(r"/([\w-]+/[\w-]+)/resolve/([^/]+)/([\w.-]+)", self.path)
        sent = answer(404, b"Entry not found")
        if match and match.group(2) in REVISIONS:
            repository = match.group(1) if match.group(2) == "main" else REVISIONS[match.group(2)]
            sent = REPOSITORIES.get(repository, {}).get(match.group(3), sent)
        code, body, headers = sent(self) if callable(sent) else sent
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:  # who reads has seen enough
            pass

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class Hub:
    """two servers, so that one can redirect to another host"""

    def __enter__(self):
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
        for server in self.servers:
            server.other = self.servers[1].server_port
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.address = "http://127.0.0.1:%d" % self.servers[0].server_port
        return self

    def __exit__(self, *exception):
        for server in self.servers:
            server.shutdown()
            server.server_close()
