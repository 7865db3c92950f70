"""Models of the Hugging Face Hub: safetensors, configuration and tokenizer, into the Hub's own cache.

A model that is complete in that cache is used as it is, without any network. Weights are fetched last, so a
complete set of weights means a complete model.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from engine.errors import DiskError, DownloadError, ModelNotFound, ModelUnsupported
from engine.models import hub_client
from engine.models.cache import IsCancelled, Progress, stop_if
from engine.models.folder import CONFIG, TOKENIZER_FILES, one_line, read_folder
from engine.models.safetensors_files import INDEX, SINGLE

_SMALL_FILES = frozenset(
    {
        *TOKENIZER_FILES, "generation_config.json", "tokenizer_config.json", "merges.txt",
        "added_tokens.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json", INDEX,
    }
)  # fmt: skip
_SITE = "https://huggingface.co"
_BY_HAND = "or copy the model's folder here by hand and name that folder"


class HubClient(Protocol):
    """What is used of the Hub; tests put a fake in its place."""

    def cached(self, repo: str) -> Path | None:
        """The newest snapshot folder of the local cache, complete or not."""
        ...

    def files(self, repo: str, revision: str | None) -> tuple[str, dict[str, int]]:
        """The commit, and the size in bytes of every file of the repository."""
        ...

    def download(
        self, repo: str, name: str, revision: str | None, size: int, on_bytes: Callable[[int], None]
    ) -> Path:
        """Fetch one file unless the cache has it; ``on_bytes`` is told how many bytes came, and may raise."""
        ...

    def cache_folder(self) -> Path:
        """Where snapshots are kept."""
        ...


def ensure_snapshot(
    repo: str, on_progress: Progress, cancelled: IsCancelled, client: HubClient | None = None
) -> Path:
    """The folder of a Hub model; its name is the commit. Stage "download", in bytes.

    Raises ModelNotFound (no such model, gated), ModelUnsupported (no safetensors), DownloadError, DiskError,
    Cancelled.
    """
    client = client or hub_client.HuggingFace()
    snapshot = cached_snapshot(repo, client)
    if snapshot is not None:
        return snapshot
    with _hub_errors(repo):
        commit, sizes = client.files(repo, None)
        wanted = _wanted(repo, sizes)
        _check_disk(client.cache_folder(), sum(sizes[name] for name in wanted))
        return _download(client, repo, commit, {name: sizes[name] for name in wanted}, on_progress, cancelled)


def cached_snapshot(repo: str, client: HubClient | None = None) -> Path | None:
    """The folder of a Hub model that is complete in the cache, else None. Nothing is asked of the Hub.

    Raises ModelUnsupported for one that is there and cannot be used.
    """
    snapshot = (client or hub_client.HuggingFace()).cached(repo)
    return snapshot if snapshot is not None and _is_complete(snapshot) else None


def _is_complete(snapshot: Path) -> bool:
    try:
        read_folder(snapshot)
    except ModelNotFound:
        return False
    return True


def _wanted(repo: str, sizes: dict[str, int]) -> list[str]:
    """The files to fetch, weights last. Raises ModelUnsupported where there are none that can be used."""
    sharded = INDEX in sizes
    weights = [
        name
        for name in sorted(sizes)
        if "/" not in name
        and name.endswith(".safetensors")
        and (name == SINGLE or (sharded and SINGLE not in sizes))
    ]
    if CONFIG in sizes and weights:
        small = sorted(name for name in sizes if name in _SMALL_FILES)
        return [CONFIG, *small, *weights]
    if any(name.endswith(".gguf") for name in sizes):
        hint = "download one of its .gguf files and name that file"
    elif any(name.endswith((".bin", ".pt", ".pth")) for name in sizes):
        hint = "its weights are pickles, which can run any code; use a repository with safetensors"
    else:
        hint = "use the repository that holds the whole model"
    raise ModelUnsupported(f"the Hub's {repo} has no {SINGLE} with a {CONFIG}", hint)


def _check_disk(folder: Path, needed: int) -> None:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise DiskError(
            f"no room for the download in {folder}: {needed / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free",
            "free some space, or set HF_HOME to a folder on another disk",
        )


def _download(
    client: HubClient,
    repo: str,
    commit: str,
    sizes: dict[str, int],
    on_progress: Progress,
    cancelled: IsCancelled,
) -> Path:
    total = sum(sizes.values())
    before = 0
    snapshot = None
    for name, size in sizes.items():
        fetched = 0

        def on_bytes(count: int, before: int = before, size: int = size) -> None:
            nonlocal fetched
            stop_if(cancelled)
            fetched += count
            on_progress("download", min(before + min(fetched, size), total), total)

        on_bytes(0)
        # The first file is asked for by branch: that is what makes the cache remember the branch's commit.
        path = client.download(repo, name, None if snapshot is None else commit, size, on_bytes)
        if snapshot is None and path.parent.name != commit:
            raise DownloadError(f"the Hub's {repo} changed during the download", "try again")
        snapshot = path.parent
        before += size
        on_progress("download", before, total)
    assert snapshot is not None, "there is at least the configuration to fetch"
    return snapshot


@contextmanager
def _hub_errors(repo: str) -> Iterator[None]:
    """The one place where the Hub's errors become ours."""
    from huggingface_hub import errors

    # The base class of its HTTP library, whichever that is: unreachable hosts and timeouts are of it too.
    network: type[Exception] = errors.HfHubHTTPError.__mro__[1]
    offline = f"connect and try again, {_BY_HAND}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise ModelNotFound(
            f"the Hub's {repo} is gated: its licence must be accepted first",
            f"accept it at {_SITE}/{repo}, then run `hf auth login`",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFound(
            f"the Hub has no model {repo}, or it is private",
            "check the spelling; for a private model run `hf auth login`",
        ) from error
    except (errors.RevisionNotFoundError, errors.EntryNotFoundError, errors.HFValidationError) as error:
        if isinstance(error, errors.LocalEntryNotFoundError):
            raise DownloadError(
                f"{repo} is not in the Hub's cache, and the Hub cannot be reached", offline
            ) from error
        raise ModelNotFound(f"the Hub's {repo} cannot be used: {one_line(error)}") from error
    except errors.OfflineModeIsEnabled as error:
        raise DownloadError(
            f"{repo} is not in the Hub's cache, and offline mode is on", f"unset HF_HUB_OFFLINE, {_BY_HAND}"
        ) from error
    except (network, OSError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise DiskError(
                f"cannot write the download of {repo}: {one_line(error)}", "free some space"
            ) from error
        raise DownloadError(f"cannot download {repo}: {one_line(error)}", offline) from error
