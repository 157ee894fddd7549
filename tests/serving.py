"""A server in this process, and a real HTTP client for it."""

import http.client
import json
import threading
import time
from contextlib import contextmanager

from kcdo.commands.models import Model
from kcdo.serve.app import application

JSON = {"Content-Type": "application/json"}


class Client:
    """Sends requests to one server."""

    def __init__(self, port, headers=None):
        self.port, self._headers = port, headers or {}

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def send(self, method, path, body=None, headers=None):
        """Return status, headers and body of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, self._headers | (headers or {}))
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path, **headers):
        status, _, body = self.send("GET", path, headers=headers)
        return status, json.loads(body)

    def post(self, path, data, headers=JSON):
        body = data if isinstance(data, bytes | str) else json.dumps(data)
        status, _, answer = self.send("POST", path, body, headers)
        return status, json.loads(answer)

    def ask(self, path, data):
        """Return the answer to a request that must work."""
        status, answer = self.post(path, data)
        assert status == 200, answer
        return answer


@contextmanager
def served(saved, name="test.kcdo", **options):
    """Serve a fitted model in a thread; yield a client."""
    import uvicorn

    app = application(Model.of(saved), name, **options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(20)
