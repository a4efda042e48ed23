"""Models in S3 and Google Cloud Storage.

A model's URL holds `manifest.json`, which names the model by its id, and a folder named by this id
with the whole model. A push fills a new folder, then writes `manifest.json` in one request. Readers
see the old or the new model, even if a push is killed. A model folder that was copied there by hand
also works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bertcnn.bundle.places import (
    PIECE,
    MissingError,
    ModelFile,
    ModelFiles,
    RemoteError,
    UnreachableError,
    names_in_folder,
    sent_pieces,
)
from bertcnn.errors import BundleError, explain_missing_packages, one_line
from bertcnn.progress import Progress
from bertcnn.storage import LARGEST_MANIFEST, MANIFEST, Manifest, parse_manifest

_CODE = re.compile(r"AWS Error (\w+)|google::cloud::Status\((\w+)")
_CURL = re.compile(r"curlCode: \d+, ([^;]+)|CURL error \[\d+\]=([^;]+?) error_info")
_NO_BUCKET: Final = {"NO_SUCH_BUCKET"}
_REFUSED: Final = {
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "EXPIRED_TOKEN",
    "UNRECOGNIZED_CLIENT",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
}
_UNREACHABLE: Final = {
    "NETWORK_CONNECTION",
    "REQUEST_TIMEOUT",
    "SLOW_DOWN",
    "SERVICE_UNAVAILABLE",
    "INTERNAL_FAILURE",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
}
_ACCESS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role of the machine",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or a role of the machine",
}
_PARAMETERS: Final = {"s3": ("allow_delayed_open", "true"), "gs": ("retry_limit_seconds", "15")}
_LONGEST_REASON = 200  # characters


class ObjectStore:
    """A model's location in an object store.

    Args:
        url: s3:// or gs://, with parameters of pyarrow such as `endpoint_override`.
        name: the URL for messages.

    Raises:
        UnreachableError: the bucket's region cannot be determined.
        RemoteError: the URL is not a folder in a bucket.
    """

    def __init__(self, url: str, name: str) -> None:
        with explain_missing_packages():
            from pyarrow import ArrowInvalid
            from pyarrow.fs import FileSystem

        self.name, self.pinned = name, False
        self._scheme = url.partition("://")[0]
        self._folders: dict[str, str] = {}  # of models, by id
        with self._explained():
            try:
                self._files, path = FileSystem.from_uri(_with_defaults(url))
            except ArrowInvalid as error:
                raise RemoteError(
                    f"the URL {name} is not usable ({_short(error)})",
                    expected=f"{self._scheme}://BUCKET/FOLDER, with parameters of pyarrow's",
                    fix="correct it",
                ) from None
        self._path = path.strip("/")
        if "/" not in self._path:
            raise RemoteError(
                f"the URL {name} names a bucket only",
                expected=f"{self._scheme}://BUCKET/FOLDER",
                fix="add the name of a folder for the model",
            )

    # === Reading ===

    def read_manifest(self) -> bytes:
        """The bytes of the current model's manifest."""
        with self._explained():
            try:
                with self._files.open_input_file(f"{self._path}/{MANIFEST}") as stream:
                    return bytes(stream.read(LARGEST_MANIFEST + 1))
            except FileNotFoundError:
                raise self._nothing_there() from None

    def pieces(self, identity: str, name: str, offset: int) -> Iterator[tuple[int, bytes]]:
        """A file's bytes from `offset`."""
        with self._explained(), self._opened(identity, name) as stream:
            stream.seek(min(offset, stream.size()))
            while piece := stream.read(PIECE):
                yield offset, piece
                offset += len(piece)

    def _opened(self, identity: str, name: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open a model's file, in the folder named by its id or, if copied by hand, at the URL."""
        known_folder = self._folders.get(identity)
        for folder in (
            (f"{self._path}/{identity}", self._path) if known_folder is None else (known_folder,)
        ):
            try:
                stream = self._files.open_input_file(f"{folder}/{name}")
            except FileNotFoundError:
                continue
            self._folders[identity] = folder
            return stream
        raise MissingError(
            f"{self.name} lacks {name} of the model {identity[:12]}",
            expected="all files of the model that its manifest.json names",
            fix="push the model again with --force",
        )

    def _nothing_there(self) -> RemoteError:
        bucket = self._path.partition("/")[0]
        if not self._exists(bucket):
            return self._no_bucket(bucket)
        if self._sizes(self._path):
            return MissingError(
                f"{self.name} holds files but no {MANIFEST}: a push is under way or was broken off",
                expected="a model that was pushed to its end",
                fix="wait for the push, or push the model again",
            )
        return MissingError(
            f"there is no model at {self.name}",
            expected="a model that `bertcnn push` put there",
            fix="correct the URL, or push the model",
        )

    def _exists(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return self._files.get_file_info(path).type != FileType.NotFound  # type: ignore[no-any-return]

    def _sizes(self, folder: str) -> dict[str, int]:
        from pyarrow.fs import FileSelector

        entries = self._files.get_file_info(
            FileSelector(folder, recursive=True, allow_not_found=True)
        )
        return {info.path.removeprefix(f"{folder}/"): info.size for info in entries if info.is_file}

    # === Writing ===

    def write(
        self, folder: Path, files: ModelFiles, replaced: Manifest | None, progress: Progress
    ) -> None:
        """Fill the model's own folder, then replace the manifest, then remove the old model.

        Files that an interrupted push has sent completely are not sent again.
        """
        target = f"{self._path}/{files.identity}"
        progress.stage(f"pushing to {self.name}", files.size, "bytes")
        with self._explained():
            again = replaced is not None and replaced.bundle_id == files.identity
            sizes = {} if again else self._sizes(target)
            for file in files.files:
                if sizes.get(file.name) == file.record.bytes:
                    progress.advance(file.record.bytes)
                else:
                    self._send(target, folder, file, progress)
            latest = self._latest(replaced, files)
            for mark in (f"{target}/{MANIFEST}", f"{self._path}/{MANIFEST}"):
                with self._files.open_output_stream(mark) as stream:
                    stream.write(files.data)
            self._check(target, files)
            for old in (replaced, latest):
                if old is not None and old.bundle_id != files.identity:
                    self._remove(old, progress)

    def _send(self, target: str, folder: Path, file: ModelFile, progress: Progress) -> None:
        with self._files.open_output_stream(f"{target}/{file.name}") as stream:
            for piece in sent_pieces(folder, file):
                stream.write(piece)
                progress.advance(len(piece))

    def _latest(self, replaced: Manifest | None, files: ModelFiles) -> Manifest | None:
        """The current manifest; another push may have finished meanwhile.

        Raises:
            RemoteError: another model has appeared since this push began.
        """
        try:
            data = self.read_manifest()
        except MissingError:
            return None
        try:
            latest = parse_manifest(data)
        except BundleError:  # a damaged model, which may be replaced
            return None
        if replaced is None and latest.bundle_id != files.identity:
            raise RemoteError(
                f"the model {latest.bundle_id[:12]} was pushed to {self.name} meanwhile",
                expected="no other push to this URL at the same time",
                fix="choose another place, or replace the model with --force",
            )
        return latest

    def _check(self, target: str, files: ModelFiles) -> None:
        """Refuse to report success if another push at the same time removed the model."""
        sizes = self._sizes(target)
        lost = [file.name for file in files.files if sizes.get(file.name) != file.record.bytes]
        if lost:
            raise RemoteError(
                f"{lost[0]} of the model is not at {self.name} any more",
                expected="no other push to this URL at the same time",
                fix="push the model again with --force",
            )

    def _remove(self, old: Manifest, progress: Progress) -> None:
        """Remove a replaced model; it stays if that is not allowed."""
        folder = f"{self._path}/{old.bundle_id}"
        try:
            if self._exists(folder):
                self._files.delete_dir(folder)
                return
            sizes = self._sizes(self._path)
            for name in names_in_folder(old):  # of a folder that was copied by hand
                if name in sizes:
                    self._files.delete_file(f"{self._path}/{name}")
        except OSError as error:
            progress.note(f"the old model's files stay at {self.name} ({_short(error)})")

    # === Errors ===

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._explanation(error) from None

    def _explanation(self, error: OSError) -> RemoteError:
        match = _CODE.search(str(error))
        code = (match[1] or match[2]) if match else ""
        if code in _NO_BUCKET:
            return self._no_bucket(self._path.partition("/")[0])
        if code in _REFUSED or "access token" in str(error):
            return RemoteError(
                f"no permission for {self.name} ({code or 'no credentials'})",
                expected=f"credentials with the right to it: {_ACCESS[self._scheme]}",
                fix="set them in the environment, or ask for the right",
            )
        if code in _UNREACHABLE:
            return UnreachableError(
                f"{self.name} cannot be reached ({_cause(error, code)})",
                expected="a network and a store that answers",
                fix="check the network and the endpoint, then run the same command again",
                passes=True,
            )
        return RemoteError(
            f"{self.name} answers with an error ({_short(error)})",
            expected="a store that answers",
            fix="correct the URL, or ask who runs the store",
        )

    def _no_bucket(self, bucket: str) -> RemoteError:
        return RemoteError(
            f"the bucket {one_line(bucket)} of {self.name} does not exist",
            expected="a bucket that is there",
            fix="correct the URL, or make the bucket first",
        )


def _with_defaults(url: str) -> str:
    """A URL with our defaults: small files in one request, and limited retries."""
    base, _, parameters = url.partition("?")
    name, value = _PARAMETERS[url.partition("://")[0]]
    if f"{name}=" in parameters:
        return url
    return f"{base}?{parameters}{'&' if parameters else ''}{name}={value}"


def _cause(error: OSError, code: str) -> str:
    match = _CURL.search(str(error))
    return (match[1] or match[2]).lower() if match else code


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 3] + "..."
