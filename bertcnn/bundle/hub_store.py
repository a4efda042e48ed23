"""Models in Hugging Face repositories: hf://ORGANISATION/NAME@REVISION.

A push is one commit and a pull reads one commit, so readers never see half of a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bertcnn.bundle.places import (
    MissingError,
    ModelFiles,
    RemoteError,
    UnreachableError,
    changed,
    names_in_folder,
)
from bertcnn.errors import BertCNNError, explain_missing_packages, one_line
from bertcnn.progress import Progress
from bertcnn.storage import (
    LARGEST_MANIFEST,
    MANIFEST,
    Manifest,
    hub_endpoint,
    hub_is_offline,
    hub_pieces,
    hub_response,
    quiet_library,
)

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, HfApi, ModelInfo

_URL = re.compile(
    r"hf://(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w./+-]+))?/?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NO_MODELS: Final = ("datasets/", "spaces/", "buckets/")
_MAIN: Final = "main"
_COMMIT_HEADER: Final = "x-repo-commit"
_REFUSALS: Final = (401, 403)  # HTTP
_BUSY: Final = 429  # HTTP
_OUTRUN: Final = 412  # HTTP: the branch has moved since the commit's parent


class HubStore:
    """A model repository on the hub.

    Args:
        url: hf://ORGANISATION/NAME, with @ and a branch, a tag or a commit.
        name: the URL for messages.

    Attributes:
        pinned: whether the revision is a commit.

    Raises:
        RemoteError: the URL is not one of a model repository.
    """

    def __init__(self, url: str, name: str) -> None:
        match = _URL.fullmatch(url)
        if not match or match["repository"].startswith(_NO_MODELS):
            raise RemoteError(
                f"the URL {name} names no repository of a model",
                expected="hf://ORGANISATION/NAME or hf://ORGANISATION/NAME@REVISION",
                fix="correct it",
            )
        with explain_missing_packages():
            import huggingface_hub  # noqa: F401 - a server may lack it
        self.name = name
        self._repository, self._revision = match["repository"], match["revision"] or _MAIN
        self.pinned = _COMMIT.fullmatch(self._revision) is not None
        self._commit = self._revision

    # === Reading ===

    def read_manifest(self) -> bytes:
        """The manifest's bytes; later reads use the same commit."""
        with self._explained(), hub_response(self._url(MANIFEST, self._revision)) as response:
            seen = (*response.history, response)
            commits = [one.headers.get(_COMMIT_HEADER) for one in seen]
            self._commit = next((commit for commit in commits if commit), self._revision)
            data = bytearray()
            for piece in response.iter_bytes():
                data += piece
                if len(data) > LARGEST_MANIFEST:
                    break
            return bytes(data)

    def pieces(self, identity: str, name: str, offset: int) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002 - one commit has one model
        """A file's bytes from `offset`, or from 0 if the hub cannot skip."""
        with self._explained():
            yield from hub_pieces(self._url(name, self._commit), offset)

    def _url(self, name: str, revision: str) -> str:
        from huggingface_hub import hf_hub_url

        return hf_hub_url(self._repository, name, revision=revision, endpoint=hub_endpoint())

    # === Writing ===

    def write(
        self, folder: Path, files: ModelFiles, replaced: Manifest | None, progress: Progress
    ) -> None:
        """Commit the model; creates a missing repository as private."""
        if self.pinned:
            raise RemoteError(
                f"{self.name} is a commit, which never changes",
                expected="a branch",
                fix="leave @ and the commit out",
            )
        from huggingface_hub import CommitOperationDelete

        progress.stage(f"pushing to {self.name}", 0, "bytes")
        with self._explained():
            api, head = self._branch()
            parent = head.sha if replaced is None else self._commit
            existing = {sibling.rfilename for sibling in head.siblings or ()}
            old = names_in_folder(replaced or files.manifest)
            operations = self._additions(folder, files)
            gone = existing.intersection(old) - {one.path_in_repo for one in operations}
            api.create_commit(
                self._repository,
                [*operations, *map(CommitOperationDelete, sorted(gone))],
                commit_message=f"bertcnn model {files.identity[:12]}",
                revision=self._revision,
                parent_commit=parent,
            )
        progress.advance(files.size)

    def _branch(self) -> tuple[HfApi, ModelInfo]:
        """The hub's API and the branch's head; creates a missing branch."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        api = HfApi(endpoint=hub_endpoint(), library_name="bertcnn")
        try:
            return api, api.model_info(self._repository, revision=self._revision)
        except RepositoryNotFoundError:
            api.create_repo(self._repository, private=True, exist_ok=True)
        except RevisionNotFoundError:
            pass
        if self._revision != _MAIN:
            api.create_branch(self._repository, branch=self._revision, exist_ok=True)
        return api, api.model_info(self._repository, revision=self._revision)

    def _additions(self, folder: Path, files: ModelFiles) -> list[CommitOperationAdd]:
        from huggingface_hub import CommitOperationAdd

        additions = []
        for file in files.files:
            one = CommitOperationAdd(file.name, folder / file.name)
            if one.upload_info.sha256.hex() != file.record.sha256:
                changed(file.name)
            additions.append(one)
        return [*additions, CommitOperationAdd(MANIFEST, files.data)]

    # === Errors ===

    @contextmanager
    def _explained(self) -> Iterator[None]:
        import httpx2
        from huggingface_hub.errors import OfflineModeIsEnabled

        if hub_is_offline():
            raise self._unreachable("HF_HUB_OFFLINE is set")
        try:
            with quiet_library():
                yield
        except BertCNNError:
            raise
        except OfflineModeIsEnabled:
            raise self._unreachable("HF_HUB_OFFLINE is set") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._explanation(error) from None
        except (OSError, RuntimeError, ValueError) as error:  # of the library's transfers
            raise RemoteError(
                f"{self.name} cannot be used ({one_line(error, 200)})",
                expected="a hub that takes and gives files",
                fix="run the same command again; if it fails again, set HF_HUB_DISABLE_XET=1",
            ) from None

    def _explanation(self, error: Exception) -> RemoteError:
        from huggingface_hub.errors import (
            EntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(error, RevisionNotFoundError):
            return MissingError(
                f"{self.name}: the repository has no revision {one_line(self._revision)}",
                expected="a branch, a tag or a commit that is there",
                fix="correct what stands behind @, or push the model",
            )
        if isinstance(error, EntryNotFoundError):
            return MissingError(
                f"there is no model at {self.name}",
                expected="a model that `bertcnn push` put there",
                fix="correct the URL, or push the model",
            )
        if isinstance(error, RepositoryNotFoundError):
            return MissingError(
                f"the repository of {self.name} does not exist, or you may not see it",
                expected="a repository that your HF_TOKEN may read",
                fix="correct the URL, set HF_TOKEN, or push the model",
            )
        if status in _REFUSALS:
            return RemoteError(
                f"no permission for {self.name} (the hub answered {status})",
                expected="an HF_TOKEN with the right to it",
                fix="set HF_TOKEN in the environment, or run `hf auth login`",
            )
        if status == _OUTRUN:
            return RemoteError(
                f"{self.name} was changed by somebody else meanwhile",
                expected="no other push at the same time",
                fix="run the same command again",
            )
        if status is None or status == _BUSY or status >= 500:
            return self._unreachable(
                type(error).__name__ if status is None else f"it answered {status}"
            )
        return RemoteError(
            f"{self.name}: the hub answered {status}",
            expected="a hub that answers",
            fix="correct the URL, or set HF_ENDPOINT to the hub's address",
        )

    def _unreachable(self, why: str) -> UnreachableError:
        return UnreachableError(
            f"{self.name} cannot be reached ({why})",
            expected="a network and a hub that answers",
            fix="check the network and HF_ENDPOINT, then run the same command again",
            passes=True,
        )
