"""Models and tokenizers from folders; what is imported for them, and when."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.llm import TransformersWrapper, load_model, load_tokenizer

from tests.llm.models import FAMILIES, tiny_model, tiny_tokenizer
from tests.llm.test_wrapper import CHATS, of_chats, wrapper
from tests.python_processes import run_python


@pytest.mark.parametrize("family", FAMILIES)
def test_from_pretrained(family: str, tmp_path: Path) -> None:
    """Models and tokenizers that were saved to disk, with their templates, give the same numbers."""
    wrapped = wrapper(family)
    wrapped.model.save_pretrained(tmp_path)  # type: ignore[operator]
    wrapped.tokenizer.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = wrapped(of_chats(CHATS))["log_probs", "full"]
        loaded = TransformersWrapper.from_pretrained(
            str(tmp_path), frozen=True, attention="eager", generate=False, pad_output=True
        )
        assert not loaded.model.training
        assert not any(parameter.requires_grad for parameter in loaded.parameters())
        torch.testing.assert_close(loaded(of_chats(CHATS))["log_probs", "full"], expected)
        by_name = TransformersWrapper(str(tmp_path), generate=False, pad_output=True)
        torch.testing.assert_close(
            by_name(of_chats(CHATS))["log_probs", "full"], expected, rtol=1e-5, atol=1e-5
        )
        of_model = TransformersWrapper(load_model(str(tmp_path)), generate=False, pad_output=True)
        torch.testing.assert_close(
            of_model(of_chats(CHATS))["log_probs", "full"], expected, rtol=1e-5, atol=1e-5
        )
    half = TransformersWrapper.from_pretrained(
        str(tmp_path), dtype="bfloat16", generate=False, pad_output=True
    )
    assert next(half.parameters()).dtype == torch.bfloat16


def test_tokenizers_are_what_they_were_saved_as(tmp_path: Path) -> None:
    """`AutoTokenizer` takes the class of the model's family, which cuts numbers into digits."""
    transformers = pytest.importorskip("transformers")
    tokenizer = tiny_tokenizer()
    tiny_model("qwen2", tokenizer).save_pretrained(tmp_path)  # type: ignore[operator]
    tokenizer.save_pretrained(tmp_path)
    ids = tokenizer.encode("the answer is 42")
    assert load_tokenizer(str(tmp_path)).encode("the answer is 42") == ids
    assert load_tokenizer(str(tmp_path)).chat_template == tokenizer.chat_template
    assert transformers.AutoTokenizer.from_pretrained(tmp_path).encode("the answer is 42") != ids


def test_the_tokenizer_that_a_model_has() -> None:
    model, tokenizer = tiny_model("llama", tiny_tokenizer()), tiny_tokenizer()
    with pytest.raises(ValueError, match="needs a tokenizer"):
        TransformersWrapper(model, generate=False)
    model.get_tokenizer = lambda: tokenizer  # type: ignore[assignment]
    found = TransformersWrapper(model, generate=False, pad_output=True)
    assert found.tokenizer is tokenizer
    assert found(of_chats(CHATS))["log_probs", "full"].count_nonzero() > len(CHATS)
    assert TransformersWrapper(model, input_mode="tokens").tokenizer is None, "tokens need none"


@pytest.mark.parametrize("load", [load_model, load_tokenizer])
def test_a_folder_that_is_missing(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        OSError, match=f"there is no folder 'saved' in {str(tmp_path)!r}, and as a name of the hub"
    ):
        load("saved", local_files_only=True)
    with pytest.raises(FileNotFoundError, match=f"^there is no folder '{tmp_path}/saved': a language model"):
        load(f"{tmp_path}/saved", local_files_only=True)
    (tmp_path / "saved").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"folder '~/saved' in .* write '{tmp_path}/saved'"):
        load("~/saved")
    with pytest.raises((OSError, ValueError)) as found:
        load("saved", local_files_only=True)
    assert "there is no folder" not in str(found.value)


@pytest.mark.parametrize("path", ["/a", "./a", "../a", "~/a", "runs/chat/best", "runs/chat/"])
@pytest.mark.parametrize("load", [load_model, load_tokenizer])
def test_what_looks_like_a_folder_is_not_asked_of_the_hub(
    load: Any, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")

    def asked(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the hub was asked")

    for kind in (transformers.AutoModelForCausalLM, transformers.AutoTokenizer):
        monkeypatch.setattr(kind, "from_pretrained", asked)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"^there is no folder '{re.escape(path)}'.*save_pretrained"):
        load(path)
    with pytest.raises(AssertionError, match="the hub was asked"):
        load("owner/name")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda", 1)])
def test_a_device_that_the_machine_lacks(device: Any, tmp_path: Path) -> None:
    """It is told by the argument before anything is looked for."""
    for load in (load_model, TransformersWrapper.from_pretrained):
        with pytest.raises(ValueError, match=rf"^device is '{device}', and torch finds no accelerator"):
            load(str(tmp_path), device=device)


def test_devices_of_models(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path)  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"device must be a device such as cpu, cuda:0 or mps, got 'gpu'"):
        load_model(str(tmp_path), device="gpu")
    for device in ("cpu", "meta", torch.device("cpu")):
        model = load_model(str(tmp_path), device=device)
        assert next(model.parameters()).device == torch.device(device)


def test_weights_that_are_cut_off(tmp_path: Path) -> None:
    tiny_model("llama").save_pretrained(tmp_path, max_shard_size="20KB")  # type: ignore[operator]
    *_, last = sorted(tmp_path.glob("*.safetensors"))
    assert last.name != "model.safetensors", "there are several"
    whole = last.read_bytes()
    for size in (len(whole) // 2, 4, 0):
        last.write_bytes(whole[:size])
        with pytest.raises(
            ValueError, match=rf"weights in '{last}' \({size} bytes\) can't be read: .*may be cut off"
        ):
            load_model(str(tmp_path))
    last.write_bytes(whole)
    load_model(str(tmp_path))


def test_importing_brings_no_transformers() -> None:
    program = "import sys, specgen_runtime.llm; print([n for n in ('transformers', 'tokenizers') if n in sys.modules])"
    found = run_python("-c", program)
    assert found.stdout.strip() == "[]"
