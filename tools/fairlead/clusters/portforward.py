"""Forwards a loopback port to a pod's port through the API server, like `kubectl port-forward`.

Source: Kubernetes, k8s.io/cri-streaming, portforward/websocket.go. Each port has two channels, 0
for its data and 1 for an error; the first message on each is the port's number.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
from pathlib import Path

from kubernetes.stream import ws_client
from websocket import ABNF, WebSocket, WebSocketException

from fairlead.kube import clients

HOST = "127.0.0.1"
PROTOCOL = "v4.channel.k8s.io"
DEADLINE = 30.0
"""Seconds in which either side has to accept what was sent."""
_DATA, _ERROR = 0, 1
_AT_ONCE = 64 * 1024


class Forward:
    """Listens on a free loopback port until it is closed or the process ends; each connection is
    forwarded separately.

    A connection ends when either side ends it, and at once if the API server or the pod refuses it.
    """

    def __init__(self, kubeconfig: Path, namespace: str, pod: str, port: int) -> None:
        """Raises InputError if the kubeconfig is invalid."""
        self._api = clients.connect(kubeconfig)
        self._path = f"/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name=f"forward {pod}:{port}", daemon=True).start()

    def close(self) -> None:
        """Stop listening; open connections stay open."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # The client sees its connection end, and reports that better than a thread can.
        with connection, contextlib.suppress(OSError, WebSocketException):
            tunnel = self._open()
            try:
                connection.settimeout(DEADLINE)
                tunnel.settimeout(DEADLINE)
                _pump(connection, tunnel)
            finally:
                if tunnel.sock:
                    tunnel.sock.close()

    def _open(self) -> WebSocket:
        headers = {"sec-websocket-protocol": PROTOCOL}
        # This renews a token if necessary.
        self._api.update_params_for_auth(headers, [], ["BearerToken"], self._path, "GET", None)
        configuration = self._api.configuration
        url = ws_client.get_websocket_url(configuration.host + self._path)
        socket: WebSocket = ws_client.create_websocket(configuration, url, headers)
        return socket


def _pump(connection: socket.socket, tunnel: WebSocket) -> None:
    """Copy bytes in both directions until one side ends, or the pod's side reports an error.
    Raises OSError, WebSocketException.
    """
    channels: set[int] = set()
    assert tunnel.sock is not None  # noqa: S101 - it is connected
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        selector.register(tunnel.sock, selectors.EVENT_READ)
        while True:
            # Selectors do not see bytes that TLS has decrypted already.
            buffered = isinstance(tunnel.sock, ssl.SSLSocket) and tunnel.sock.pending()
            ready = {key.fileobj for key, _ in selector.select(0 if buffered else None)}
            if buffered or tunnel.sock in ready:
                opcode, frame = tunnel.recv_data_frame(control_frame=True)
                if opcode == ABNF.OPCODE_CLOSE:
                    return
                if opcode == ABNF.OPCODE_BINARY and frame.data:
                    channel, data = frame.data[0], frame.data[1:]
                    if channel not in channels:
                        channels.add(channel)
                    elif channel == _ERROR:
                        return
                    elif channel == _DATA:
                        connection.sendall(data)
            if connection in ready:
                data = connection.recv(_AT_ONCE)
                if not data:
                    return
                tunnel.send_binary(bytes([_DATA]) + data)
