"""The KL penalty between two small language models, against TorchRL's `RetrieveKL`: time, and memory beside the models.

Each measurement is a process of its own, which `python -m benchmarks.language_models ours|TorchRL CASE` runs.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.harness import Budget, Row
from benchmarks.processes import run_python

ROWS = 4
WORDS = ["the", "answer", "is", "42", "and", "nothing", "else"]


class Case(NamedTuple):
    """What is measured, and the least ratios that are promised: of times, and of memory."""

    name: str
    vocabulary: int
    asked: int
    answered: int
    assistant_only: bool = True
    backward: bool = False
    faster: float | None = None
    smaller: float | None = None


CASES = {
    "assistant": Case("assistant tokens, 50k ids", 50257, 150, 90, faster=5, smaller=20),
    "all": Case("all tokens, 50k ids", 50257, 150, 90, assistant_only=False, faster=2.5, smaller=15),
    "backward": Case(
        "assistant tokens, 50k ids, with backward", 50257, 150, 90, backward=True, faster=5, smaller=5
    ),
    "small": Case("assistant tokens, 512 ids, short", 512, 15, 9, faster=3),
}


class Measured(NamedTuple):
    """Of one process."""

    seconds: float
    mebibytes: float


def rows(budget: Budget) -> Iterator[Row]:
    """Scoring assistant tokens, all tokens, with gradients, and with a small vocabulary."""
    for name, case in CASES.items():
        times: list[tuple[float, float]] = []
        sizes: list[tuple[float, float]] = []
        for _ in range(max(1, budget.rounds // 3)):
            mine, peer = (Measured(*json.loads(run_process(who, name))) for who in ("ours", "TorchRL"))
            times.append((mine.seconds, peer.seconds))
            sizes.append((mine.mebibytes, peer.mebibytes))
        yield _row(f"RetrieveKL, {case.name}", times, case.faster)
        if case.smaller is not None:
            yield _row(f"RetrieveKL, {case.name}, memory", sizes, case.smaller, memory=True)


def run_process(who: str, name: str) -> str:
    """The last line that a measuring process prints."""
    return run_python("-m", "benchmarks.language_models", who, name).splitlines()[-1]


def _row(name: str, pairs: list[tuple[float, float]], limit: float | None, *, memory: bool = False) -> Row:
    ratios = [peer / max(mine, 1e-9) for mine, peer in pairs]
    mine, peer = (statistics.median(column) for column in zip(*pairs, strict=True))
    spread = min(ratios), max(ratios)
    return Row(
        name, mine, peer, statistics.median(ratios), spread, "TorchRL", limit, rate=False, memory=memory
    )


def measure(who: str, case: Case) -> Measured:
    """Time and memory of one call in this process, the first one aside."""
    call = {"ours": _ours, "TorchRL": _torchrl}[who](case)
    call(_chats(2, 2))
    gc.collect()
    chats = _chats(case.asked, case.answered)
    start = highest = _resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.is_set():
            highest = max(highest, _resident())
            time.sleep(0.0005)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    call(chats)
    done.set()
    watcher.join()
    seconds = []
    for _ in range(3 if case.vocabulary > 1000 else 15):
        before = time.perf_counter()
        call(chats)
        seconds.append(time.perf_counter() - before)
    return Measured(min(seconds), max(highest - start, 1.0))


def _resident() -> float:
    """The memory that this process holds, in mebibytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def _ours(case: Case) -> Callable[[list[Any]], None]:
    from specgen_runtime.llm import ChatHistory, RetrieveKL, TransformersWrapper, as_rows
    from tensordict import TensorDict

    tokenizer = _tokenizer()

    def wrapped(seed: int, key: str) -> TransformersWrapper:
        model = _model(case.vocabulary, seed, trained=case.backward and seed == 0)
        return TransformersWrapper(
            model, tokenizer=tokenizer, generate=False, pad_output=True, log_probs_key=key
        )

    transform = RetrieveKL(
        gen_model=wrapped(0, "gen_log_probs"),
        ref_model=wrapped(1, "ref_log_probs"),
        assistant_only=case.assistant_only,
        add_to_reward=False,
        detach=not case.backward,
    )

    def call(chats: list[Any]) -> None:
        history = ChatHistory(full=as_rows(chats, [ROWS]), batch_size=[ROWS])
        data = TensorDict({"history": history, "next": TensorDict({"history": history}, [ROWS])}, [ROWS])
        penalty = transform(data)["next", "kl_penalty"]
        if case.backward:
            penalty.sum().backward()

    return call


def _torchrl(case: Case) -> Callable[[list[Any]], None]:
    from tensordict import TensorDict, set_list_to_stack
    from torchrl.data.llm import History
    from torchrl.envs.llm.transforms import RetrieveKL
    from torchrl.modules.llm import TransformersWrapper
    from torchrl.modules.llm.policies import ChatHistory

    set_list_to_stack(True).set()
    tokenizer = _tokenizer()

    def wrapped(seed: int, key: str) -> TransformersWrapper:
        model = _model(case.vocabulary, seed, trained=case.backward and seed == 0)
        return TransformersWrapper(
            model,
            tokenizer=tokenizer,
            input_mode="history",
            generate=False,
            return_log_probs=True,
            pad_output=True,
            log_probs_key=key,
        )

    transform = RetrieveKL(
        gen_model=wrapped(0, "gen_log_probs"),
        ref_model=wrapped(1, "ref_log_probs"),
        assistant_only=case.assistant_only,
        tokenizer=tokenizer,
        add_to_reward=False,
    )

    def call(chats: list[Any]) -> None:
        history = ChatHistory._from_tensordict(TensorDict({"full": History.from_chats(chats)}, [ROWS]))
        data = TensorDict({"history": history, "next": TensorDict({"history": history}, [ROWS])}, [ROWS])
        penalty = transform(data)["next"].get("kl_penalty")
        if case.backward:
            torch.stack([row.sum() for row in penalty.unbind()]).sum().backward()

    return call


def _model(vocabulary: int, seed: int, *, trained: bool) -> Any:
    import transformers

    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    return model.requires_grad_(trained)


def _tokenizer() -> Any:
    """Words as tokens, with a template that marks what the assistant says."""
    import tokenizers
    import transformers

    words = ["<pad>", "<end>", "<unk>", "user", "assistant", *dict.fromkeys(WORDS)]
    backend = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: index for index, word in enumerate(words)}, "<unk>")
    )
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<end>", unk_token="<unk>"
    )
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['role'] + ' ' }}{% if message['role'] == 'assistant' %}"
        "{% generation %}{{ message['content'] + ' <end>' }}{% endgeneration %}"
        "{% else %}{{ message['content'] + ' <end> ' }}{% endif %}{% endfor %}"
    )
    return tokenizer


def _chats(asked: int, answered: int) -> list[Any]:
    """Conversations of about so many tokens."""

    def words(count: int) -> str:
        return " ".join(WORDS[index % len(WORDS)] for index in range(count))

    return [
        [{"role": "user", "content": words(asked)}, {"role": "assistant", "content": words(answered)}]
        for _ in range(ROWS)
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measure(sys.argv[1], CASES[sys.argv[2]])))
