"""`Tokenizer`: text as tokens, and what the policy gives as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDictBase, is_non_tensor
from torch import Tensor

from specgen_runtime.envs.keys import show_key
from specgen_runtime.extras import import_extra
from specgen_runtime.specs import Bounded, Composite
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import leaf_keys, normal_keys, sibling
from specgen_runtime.transforms.unary import nested_list
from specgen_runtime.typing import NestedKey

__all__ = ["Tokenizer"]


class Tokenizer(Transform):
    """Turns the text of an environment into tokens, at reset and at step, and tokens of the policy into text.

    Tokens are `int64[*batch, length]`, padded to the longest text of a call, or to `max_length`, where longer ones are
    cut. Beside them, under ``"attention_mask"``, stands which are no padding.

    Args:
        in_keys: the texts.
        out_keys: the tokens.
        in_keys_inv: the texts that the environment is given.
        out_keys_inv: the tokens of the policy.
        tokenizer: of `transformers`, its name, or anything that is called and decodes as those. TorchRL downloads one
            where none is given; here it has to be named.
        use_raw_nontensor: hand over `NonTensorData` as it is.
        additional_tokens: added to the tokenizer's.
        skip_special_tokens: leave them out of text.
        add_special_tokens: add the tokenizer's own, such as begin and end.
        padding: as the tokenizer's argument, without `max_length`.
        max_length: the length of all; None: that of the longest.
        return_attention_mask: write it.
        missing_tolerance: pass over texts that are not there.
        call_before_reset: tokenize what `reset` is given instead of what it returns.

    Raises:
        ValueError: there is no tokenizer, or two outputs have the same mask.
        ImportError: a name is given, and `transformers` is not installed.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        tokenizer: Any = None,
        use_raw_nontensor: bool = False,
        additional_tokens: list[str] | None = None,
        skip_special_tokens: bool = True,
        add_special_tokens: bool = False,
        padding: bool | str = True,
        max_length: int | None = None,
        return_attention_mask: bool = True,
        missing_tolerance: bool = True,
        call_before_reset: bool = False,
    ) -> None:
        if tokenizer is None:
            raise ValueError("Tokenizer needs a tokenizer, or the name of one that transformers can load")
        if isinstance(tokenizer, str):
            library = import_extra("transformers", f"the tokenizer {tokenizer!r} needs transformers", "llm")
            tokenizer = library.AutoTokenizer.from_pretrained(tokenizer)
        masks = [sibling(key, "attention_mask") for key in normal_keys(out_keys or [])]
        if return_attention_mask and len(set(masks)) < len(masks):
            raise ValueError(
                f"Tokenizer writes {show_key(masks[0])} twice: nest the tokens at different places"
            )
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self._masks = masks if return_attention_mask else []
        self.tokenizer = tokenizer
        if additional_tokens:
            self.tokenizer.add_tokens(additional_tokens)
        self.use_raw_nontensor = use_raw_nontensor
        self.skip_special_tokens = skip_special_tokens
        self.add_special_tokens = add_special_tokens
        self.padding = padding
        self.max_length = max_length
        self.return_attention_mask = return_attention_mask
        self.call_before_reset = call_before_reset
        self.set_missing_tolerance(missing_tolerance)

    # --------------------------------------------------------------- moments

    def _tokens(self, value: Any, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """The tokens and the mask of a text, or of nested lists of them."""
        texts = value.tolist() if is_non_tensor(value) and not self.use_raw_nontensor else value
        flat, shape = _flat(texts)
        whole = self.max_length is not None
        made = self.tokenizer(
            flat,
            return_tensors="pt",
            add_special_tokens=self.add_special_tokens,
            padding="max_length" if whole else self.padding,
            return_attention_mask=True,
            **({"max_length": self.max_length, "truncation": True} if whole else {}),
        )
        tokens, mask = (
            made[name].long().reshape(*shape, -1).to(device) for name in ("input_ids", "attention_mask")
        )
        return tokens, mask

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        env = self.parent
        device = tensordict.device if env is None else env.device
        for place, (in_key, out_key) in enumerate(self._pairs()):
            value: Any = self._read(tensordict, in_key, tolerant)
            if value is not None:
                tokens, mask = self._tokens(value, device)
                tensordict.set(out_key, tokens)
                if self._masks:
                    tensordict.set(self._masks[place], mask)
        return tensordict

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        following = tensordict.get("next", None)
        if following is not None:
            self._map(following, tolerant=True)
            if any(following.get(key, None) is not None for key in self.in_keys):
                return self._map(tensordict, tolerant=True)
        return self._map(tensordict, self._missing_tolerance)

    def _inv_apply_transform(self, state: Tensor) -> Any:
        tokens = state.int()
        if tokens.ndim == 1:
            return NonTensorData(self.tokenizer.decode(tokens, skip_special_tokens=self.skip_special_tokens))
        flat = tokens.flatten(0, -2)
        texts = self.tokenizer.batch_decode(flat, skip_special_tokens=self.skip_special_tokens)
        return NonTensorStack.from_list(nested_list(texts, list(tokens.shape[:-1])))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset if self.call_before_reset else self._map(tensordict_reset, tolerant=True)

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        if self.call_before_reset and tensordict is not None:
            return self._map(tensordict, tolerant=True)
        return tensordict

    # ----------------------------------------------------------------- specs

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add tokens and masks."""
        for key in self.out_keys:
            observation_spec[key] = self._token_spec(observation_spec, self._size() - 1)
        for key in self._masks:
            observation_spec[key] = self._token_spec(observation_spec, 1)
        return observation_spec

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Put tokens in place of text."""
        return self._in_place(action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Put tokens in place of text."""
        return self._in_place(state_spec)

    def _in_place(self, specs: Composite) -> Composite:
        present = leaf_keys(specs)
        for in_key, out_key in self._pairs_inv():
            if in_key in present:
                del specs[in_key]
                specs[out_key] = self._token_spec(specs, self._size() - 1)
        return specs

    def _token_spec(self, specs: Composite, high: int) -> Bounded:
        length = -1 if self.max_length is None else self.max_length
        return Bounded(0, high, shape=(*specs.shape, length), dtype=torch.int64, device=specs.device)

    def _size(self) -> int:
        """How many tokens there are, added ones included."""
        own = self.tokenizer
        return len(own) if hasattr(own, "__len__") else int(own.vocab_size)


def _flat(texts: Any) -> tuple[list[str], list[int]]:
    """Texts in a row, and the shape of the nested lists that they stood in."""
    if isinstance(texts, str):
        return [texts], []
    parts = [_flat(each) for each in texts]
    return [text for row, _ in parts for text in row], [len(parts), *(parts[0][1] if parts else [])]
