# ...


def policy_model(*, device: DEVICE_TYPING | None = None) -> TransformersWrapper:
    """Return the language model `policy`.

    It is loaded from `checkpoints/sft` at each call, reads conversations, and can be trained.

    Args:
        device: where it is put; where it was loaded if None.
    """
    check_recorded(
        "checkpoints/sft",
        tokenizer="0000000000000000000000000000000000000000000000000000000000000000",
        template="1111111111111111111111111111111111111111111111111111111111111111",
    )
    return TransformersWrapper.from_pretrained(
        "checkpoints/sft",
        input_mode="history",
        generate=False,
        return_log_probs=True,
        pad_output=False,
        padding_side="left",
        device=device,
    )


def bare_model(*, device: DEVICE_TYPING | None = None) -> TransformersWrapper:
    """Return the language model `bare`.

    It is loaded from `checkpoints/sft` at each call, reads conversations, and can be trained.

    Args:
        device: where it is put; where it was loaded if None.
    """
    check_recorded(
        "checkpoints/sft", tokenizer="0000000000000000000000000000000000000000000000000000000000000000"
    )
    return TransformersWrapper.from_pretrained(
        "checkpoints/sft",
        chat_template_name="chatml_format",
        input_mode="history",
        generate=False,
        return_log_probs=True,
        pad_output=False,
        padding_side="left",
        device=device,
    )
