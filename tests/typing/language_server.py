"""Pyright's language server: what an editor shows and offers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PYTHON = {"python": {"pythonPath": sys.executable}}
"""What the server is told when it asks for the editor's configuration."""


class LanguageServer:
    """A server for the files of a folder, for the length of a `with` block.

    A place in a file is written into its text, as `|`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._count = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pyright.langserver", "--stdio"],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        uri = self.folder.as_uri()
        capabilities = {
            "workspace": {"configuration": True},
            "textDocument": {"hover": {"contentFormat": ["plaintext"]}},
        }
        folders = [{"uri": uri, "name": "folder"}]
        self._ask(
            "initialize",
            {"processId": None, "rootUri": uri, "workspaceFolders": folders, "capabilities": capabilities},
        )
        self._tell("initialized", {})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def hover(self, text: str) -> str:
        """What is shown over the name at a place."""
        found: str = self._at("textDocument/hover", text)["contents"]["value"]
        return found

    def offered(self, text: str) -> set[str]:
        """The strings that are offered at a place, without their quotes."""
        labels = [item["label"] for item in self._at("textDocument/completion", text)["items"]]
        return {label.strip("\"'") for label in labels if label[:1] in "\"'"}

    def _at(self, method: str, text: str) -> Any:
        before, after = text.split("|")
        self._count += 1
        uri = (self.folder / f"opened_{self._count}.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": before + after}
        self._tell("textDocument/didOpen", {"textDocument": document})
        *lines, last = before.split("\n")
        position = {"line": len(lines), "character": len(last)}
        return self._ask(method, {"textDocument": {"uri": uri}, "position": position})

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._count += 1
        number = self._count
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" not in message and message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            if "method" in message and "id" in message:
                items = message["params"].get("items", []) if message["params"] else []
                self._send({"id": message["id"], "result": [PYTHON.get(i.get("section"), {}) for i in items]})

    def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _receive(self) -> Any:
        stream = self._process.stdout
        assert stream is not None
        length = 0
        while header := stream.readline().strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the language server has stopped"
        return json.loads(stream.read(length))
