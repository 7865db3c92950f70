"""Device and number format, with the reason in words."""

from __future__ import annotations

import pytest
import torch

from engine.errors import ConfigError
from engine.models import devices
from engine.models.devices import fast_bfloat16, place, resolve_device, resolve_dtype, set_threads

CUDA, MPS, CPU = torch.device("cuda", 0), torch.device("mps"), torch.device("cpu")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without any accelerator."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    return monkeypatch


def _add_cuda(machine: pytest.MonkeyPatch, count: int = 2) -> None:
    machine.setattr(torch.cuda, "is_available", lambda: True)
    machine.setattr(torch.cuda, "device_count", lambda: count)
    machine.setattr(torch.cuda, "get_device_name", lambda index: "Some GPU")


class TestDevice:
    def test_auto_prefers_cuda_then_mps_then_cpu(self, machine: pytest.MonkeyPatch) -> None:
        assert resolve_device("auto") == (CPU, False, "cpu: no CUDA or MPS device here")
        machine.setattr(torch.backends.mps, "is_available", lambda: True)
        assert resolve_device("auto")[0] == MPS
        _add_cuda(machine)
        assert resolve_device("auto") == (CUDA, False, "cuda:0: Some GPU")

    def test_named(self, machine: pytest.MonkeyPatch) -> None:
        _add_cuda(machine)
        machine.setattr(torch.backends.mps, "is_available", lambda: True)
        assert resolve_device("cpu")[0] == CPU
        assert resolve_device("mps")[0] == MPS
        assert resolve_device("cuda")[0] == CUDA
        assert resolve_device("cuda:1")[0] == torch.device("cuda", 1)
        assert resolve_device("balanced")[:2] == (CUDA, True)

    @pytest.mark.parametrize("name", ["cuda", "cuda:0", "balanced", "mps"])
    def test_not_here(self, name: str, machine: pytest.MonkeyPatch) -> None:
        with pytest.raises(ConfigError) as raised:
            resolve_device(name)
        assert '"auto"' in str(raised.value.hint)

    def test_too_high_a_number(self, machine: pytest.MonkeyPatch) -> None:
        _add_cuda(machine)
        with pytest.raises(ConfigError, match="cuda:2 does not exist: there are 2"):
            resolve_device("cuda:2")

    @pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "CPU", "", "cuda:0\n"])
    def test_unknown(self, name: str) -> None:
        with pytest.raises(ConfigError, match="not a device"):
            resolve_device(name)


class TestDtype:
    @pytest.mark.parametrize(
        ("able", "expected", "reason"),
        [
            ({"amx_bf16": True, "amx_tile": True, "avx512_bf16": True}, torch.bfloat16, "AMX"),
            ({"avx512_bf16": True}, torch.bfloat16, "AVX512-BF16"),
            ({"avx512_f": True, "avx2": True}, torch.float32, "no fast bfloat16"),
            ({"architecture": "aarch64", "neon": True}, torch.float32, "no fast bfloat16"),
        ],
    )
    def test_processors(
        self, able: dict[str, object], expected: torch.dtype, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
        dtype, words = resolve_dtype("auto", CPU)
        assert dtype == expected
        assert reason in words

    def test_older_torch_cannot_tell(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(torch.cpu, "get_capabilities")
        assert fast_bfloat16() is None

    @pytest.mark.parametrize(("able", "expected"), [(True, torch.bfloat16), (False, torch.float16)])
    def test_cuda(self, able: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: able)
        assert resolve_dtype("auto", CUDA)[0] == expected

    @pytest.mark.parametrize(("newer", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
    def test_mps(self, newer: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda *version: newer)
        assert resolve_dtype("auto", MPS)[0] == expected

    def test_named(self) -> None:
        assert resolve_dtype("float16", CPU) == (torch.float16, "float16: as configured")
        with pytest.raises(ConfigError, match="int8"):
            resolve_dtype("int8", CPU)

    def test_here(self) -> None:
        placement = place("cpu", "auto")
        assert placement.dtype in {torch.float32, torch.bfloat16}
        assert placement.dtype_reason.startswith(devices.dtype_name(placement.dtype))


def test_threads() -> None:
    before = torch.get_num_threads()
    try:
        assert set_threads(1) == 1
        assert set_threads(None) == 1
    finally:
        torch.set_num_threads(before)
