# ...


def judge_model(*, generate: bool = False, device: DEVICE_TYPING | None = None) -> TransformersWrapper:
    """Return the language model `JudgeModel`.

    It is loaded from `checkpoints/sft` at each call, reads conversations, takes no gradients, and
    writes its log-probabilities below `judged`.

    Args:
        generate: whether it answers prompts; otherwise it scores what is there.
        device: where it is put; where it was loaded if None.
    """
    return TransformersWrapper.from_pretrained(
        "checkpoints/sft",
        frozen=True,
        input_mode="history",
        generate=generate,
        generate_kwargs={
            "max_new_tokens": 64,
            "do_sample": True,
            "temperature": 1.0,
            "top_k": 0,
            "top_p": 1.0,
            "repetition_penalty": 1.0,
        },
        return_log_probs=True,
        pad_output=True,
        padding_side="left",
        pad_to=512,
        log_probs_key="judged",
        device=device,
    )


class Penalised(TransformedEnv["PenalisedData", "PenalisedSpecs"]):
    # ...

    def __init__(
        self, *, policy: TransformersWrapper, reference: TransformersWrapper | None = None,
        judge: TransformersWrapper | None = None,
        source: Iterable[ChatRow | str | Sequence[Message]] | None = None, shuffle: bool = True,
        batch_size: Sequence[int] | int | None = None, seed: int = 0, device: DEVICE_TYPING | None = None,
    ) -> None:
        """What is trained on.

        Args:
            policy: the language model `policy`; the one that is trained, or a version of it.
            reference: the language model `reference`; None: `reference_model()`.
            judge: the language model `JudgeModel`; None: `judge_model()`.
            source: the rows that conversations begin with, in place of what `mypackage.data:load` gives.
            shuffle: whether a source that is a sequence is shuffled in each epoch.
            batch_size: of the conversations, a multiple of 4 or a divisor of it: each 4 are about one
                prompt; None: (4,).
            seed: of the order of the rows.
            device: where the tensors live.
        """
        policy = wrapper_of(policy, "policy").get_new_version(
            generate=False, input_mode="history", pad_output=True, pad_to=512, padding_side="left"
        )
        reference = (
            reference_model(generate=False)
            if reference is None
            else wrapper_of(reference, "reference").get_new_version(
                generate=False, input_mode="history", pad_output=True, pad_to=512, padding_side="left"
            )
        )
        judge = (
            judge_model(generate=False)
            if judge is None
            else wrapper_of(judge, "judge").get_new_version(
                generate=False, input_mode="history", pad_output=True, pad_to=512, padding_side="left"
            )
        )
        super().__init__(
            Chat(source=source, shuffle=shuffle, batch_size=batch_size, seed=seed, device=device),
            Compose(
                RetrieveKL(
                    gen_model=policy,
                    ref_model=reference,
                    kl_key=("penalties", "kl"),
                    coeff=0.05,
                    target_kl=4.0,
                ),
                RetrieveLogProb(model=judge, log_probs_full_key=("judged", "full")),
            ),
        )


class Remote(TransformedEnv["RemoteData", "RemoteSpecs"]):
    # ...

    def __init__(
        self, *, source: Iterable[ChatRow | str | Sequence[Message]] | None = None, shuffle: bool = True,
        batch_size: Sequence[int] | int | None = None, seed: int = 0, device: DEVICE_TYPING | None = None,
    ) -> None:
        """`Chat` with transforms.

        Args:
            source: the rows that conversations begin with, in place of what `mypackage.data:load` gives.
            shuffle: whether a source that is a sequence is shuffled in each epoch.
            batch_size: of the conversations, a multiple of 4 or a divisor of it: each 4 are about one
                prompt; None: (4,).
            seed: of the order of the rows.
            device: where the tensors live.
        """
        super().__init__(
            Chat(source=source, shuffle=shuffle, batch_size=batch_size, seed=seed, device=device),
            Compose(
                RetrieveKL(
                    gen_model_factory=partial(policy_model, generate=False),
                    ref_model_factory=partial(reference_model, generate=False),
                    use_ray_service=True,
                )
            ),
        )


class Sampled(TransformedEnv["SampledData", "SampledSpecs"]):
    # ...

    def __init__(
        self, *, judge: TransformersWrapper | None = None,
        source: Iterable[ChatRow | str | Sequence[Message]] | None = None, shuffle: bool = True,
        batch_size: Sequence[int] | int | None = None, seed: int = 0, device: DEVICE_TYPING | None = None,
    ) -> None:
        """`Chat` with transforms.

        Args:
            judge: the language model `JudgeModel`; None: `judge_model()`.
            source: the rows that conversations begin with, in place of what `mypackage.data:load` gives.
            shuffle: whether a source that is a sequence is shuffled in each epoch.
            batch_size: of the conversations, a multiple of 4 or a divisor of it: each 4 are about one
                prompt; None: (4,).
            seed: of the order of the rows.
            device: where the tensors live.
        """
        judge = (
            judge_model(generate=False)
            if judge is None
            else wrapper_of(judge, "judge").get_new_version(
                generate=False, input_mode="history", pad_output=True, pad_to=512, padding_side="left"
            )
        )
        super().__init__(
            Chat(source=source, shuffle=shuffle, batch_size=batch_size, seed=seed, device=device),
            Compose(
                KLRewardTransform(
                    ref_model=judge,
                    out_keys=["reward", "kl", "ref_log_probs"],
                    log_prob_key=("sampled", "full"),
                )
            ),
        )


# ...
