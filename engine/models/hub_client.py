"""The requests that are made of the Hugging Face Hub."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.errors import DownloadError
from engine.models.cache import cache_dir, make_dir, sha256_of
from engine.models.folder import CONFIG
from engine.models.locked import locked

RESUMED_FROM = 8 << 20
"""Files from this size on are worth going on with where a download stopped, bytes."""

_SHA256_DIGITS = 64
_SAFE_NAME = re.compile(r"[0-9A-Za-z]+")


@dataclass(frozen=True, slots=True)
class HuggingFace:
    """The real Hub, or a mirror of it."""

    endpoint: str | None = None
    """None: as the environment says."""
    cache_dir: Path | None = None
    """None: as the environment says."""

    def cached(self, repo: str) -> Path | None:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(repo, CONFIG, cache_dir=self.cache_dir)
        return Path(found).parent if isinstance(found, str) else None

    def files(self, repo: str, revision: str | None) -> tuple[str, dict[str, int]]:
        from huggingface_hub import HfApi

        info = HfApi(endpoint=self.endpoint).model_info(repo, revision=revision, files_metadata=True)
        return str(info.sha), {file.rfilename: int(file.size or 0) for file in info.siblings or ()}

    def download(
        self, repo: str, name: str, revision: str | None, size: int, on_bytes: Callable[[int], None]
    ) -> Path:
        from huggingface_hub import constants, hf_hub_download

        # Xet's transfer runs outside Python, where a cancel cannot reach it.
        constants.HF_HUB_DISABLE_XET = True
        if size >= RESUMED_FROM and revision is not None:
            self._fetch_blob(repo, name, revision, on_bytes)
        path = hf_hub_download(
            repo,
            name,
            revision=revision,
            cache_dir=self.cache_dir,
            endpoint=self.endpoint,
            tqdm_class=_bar_class(on_bytes),
        )
        return Path(path)

    def _fetch_blob(self, repo: str, name: str, revision: str, on_bytes: Callable[[int], None]) -> None:
        """Put the content of a large file where the Hub's cache keeps it, going on where a download stopped.

        ``hf_hub_download`` starts a file all over again; once the content is there, it only links it.
        """
        from huggingface_hub import get_hf_file_metadata, hf_hub_url
        from huggingface_hub.file_download import http_get, repo_folder_name
        from huggingface_hub.utils._headers import build_hf_headers

        url = hf_hub_url(repo, name, revision=revision, endpoint=self.endpoint)
        found = get_hf_file_metadata(url, endpoint=self.endpoint)
        headers = build_hf_headers()
        if urlsplit(found.location).netloc != urlsplit(url).netloc:
            # The address of a large file is signed and on another host, which must not see the user's token.
            headers.pop("authorization", None)
        if found.etag is None or found.size is None or not _SAFE_NAME.fullmatch(found.etag):
            return
        blobs = self.cache_folder() / repo_folder_name(repo_id=repo, repo_type="model") / "blobs"
        blob, partial = blobs / found.etag, blobs / f"{found.etag}.partial"
        with locked(cache_dir() / "downloads" / found.etag, lambda: _told_to_stop(on_bytes)):
            if blob.exists():
                return
            make_dir(blobs)
            with partial.open("ab") as file:
                done = min(file.tell(), found.size)
                file.truncate(done)
                on_bytes(done)
                http_get(
                    found.location,
                    file,
                    resume_size=done,
                    headers=headers,
                    expected_size=found.size,
                    tqdm_class=_bar_class(on_bytes),
                )
            if len(found.etag) == _SHA256_DIGITS and sha256_of(partial) != found.etag:
                partial.unlink()
                raise DownloadError(f"{name} of {repo} arrived damaged", "try again")
            partial.replace(blob)

    def cache_folder(self) -> Path:
        from huggingface_hub import constants

        return self.cache_dir or Path(constants.HF_HUB_CACHE)


def _told_to_stop(on_bytes: Callable[[int], None]) -> bool:
    """``on_bytes`` raises by itself once the user has said stop."""
    on_bytes(0)
    return False


def _bar_class(on_bytes: Callable[[int], None]) -> type:
    """A stand-in for tqdm that draws nothing and tells ``on_bytes``."""

    class Bar:
        def __init__(self, *args: Any, initial: int = 0, **options: Any) -> None:
            self.n = initial

        def update(self, count: float = 1) -> None:
            self.n += int(count)
            on_bytes(int(count))

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *error: object) -> None:
            self.close()

        def close(self) -> None:
            """Nothing is drawn, so nothing is left to clear."""

        def __getattr__(self, name: str) -> Callable[..., None]:
            # The rest of tqdm's methods only draw.
            return _nothing

    return Bar


def _nothing(*_args: Any, **_options: Any) -> None:
    """Draw nothing."""
