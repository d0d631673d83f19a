# ...


def policy_model(*, generate: bool = True, device: DEVICE_TYPING | None = None) -> TransformersWrapper:
    """Return the language model `policy`.

    It is loaded from `checkpoints/sft` at each call, reads conversations, and can be trained.

    Args:
        generate: whether it answers prompts; otherwise it scores what is there.
        device: where it is put; where it was loaded if None.
    """
    return TransformersWrapper.from_pretrained(
        "checkpoints/sft",
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
        device=device,
    )


# ...
