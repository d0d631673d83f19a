# ...


def imported_model(*, device: DEVICE_TYPING | None = None) -> TransformersWrapper:
    """Return the language model `imported`.

    It is loaded from `checkpoints/sft` at each call, reads conversations, and can be trained.

    Args:
        device: where it is put; where it was loaded if None.
    """
    return TransformersWrapper.from_pretrained(
        "checkpoints/sft",
        input_mode="history",
        generate=False,
        return_log_probs=True,
        pad_output=False,
        padding_side="right",
        device=device,
    )
