"""The contract of `RetrieveKL` and `ModuleTransform`, row by row: which tests hold each promise and each fault of TorchRL 0.14.1."""

from __future__ import annotations

import pytest

from tests.named_tests import TESTS, is_there, names_in

RETRIEVE_KL = {
    "gen_model defaults to 'from_collector'": (
        "llm/test_kl_environments.py::test_gen_model_defaults_to_from_collector",
        "llm/test_kl_environments.py::test_collectors_without_such_a_policy",
        "llm/test_kl_environments.py::test_collectors_of_torchrl",
    ),
    "gen_model=None without a factory, or no ref_model": (
        "llm/test_retrieve_kl.py::test_models_that_are_missing",
    ),
    "model and factory both given": ("llm/test_retrieve_kl.py::test_model_and_factory_both_given",),
    "factories": ("llm/test_retrieve_kl.py::test_factories",),
    "pad_output differs": ("llm/test_retrieve_kl.py::test_models_that_do_not_fit",),
    "generate=True on either; return_log_probs=False": (
        "llm/test_retrieve_kl.py::test_models_that_do_not_fit",
        "llm/test_retrieve_kl.py::test_models_without_log_probs",
    ),
    "the two models write the same log-prob key": ("llm/test_retrieve_kl.py::test_models_that_do_not_fit",),
    "assistant_only=True with an input mode other than history": (
        "llm/test_retrieve_kl.py::test_models_that_do_not_fit",
        "llm/test_retrieve_kl.py::test_all_tokens_in_each_mode",
    ),
    "assistant zeroing": ("llm/test_retrieve_kl.py::test_assistant_zeroing",),
    "gen_log_probs_full_key, ref_log_probs_full_key": (
        "llm/test_retrieve_kl.py::test_log_prob_keys",
        "llm/test_retrieve_kl.py::test_fault_3_ragged_samples_with_default_keys",
    ),
    "history_key, tokenizer_kwargs, tokenizer, padding_side": (
        "llm/test_retrieve_kl.py::test_fault_4_keywords_have_an_effect",
    ),
    "detach": ("llm/test_retrieve_kl.py::test_fault_1_detach",),
    "device": (
        "llm/test_retrieve_kl.py::test_device",
        "llm/test_retrieve_kl.py::test_device_of_models_and_of_results",
    ),
    "kl_key": ("llm/test_kl_environments.py::test_fault_13_specs_hold_what_is_written_with_its_shape",),
    "add_to_reward, coeff": (
        "llm/test_retrieve_kl.py::test_fault_2_add_to_reward",
        "llm/test_retrieve_kl.py::test_one_reward_becomes_one_for_each_token",
    ),
    "use_ray_service, actor_name": (
        "ray/test_kl.py::test_use_ray_service_and_actor_name_and_faults_6_and_15",
    ),
    "data without next": ("llm/test_retrieve_kl.py::test_data_without_next",),
    "the documented example": (
        "llm/test_retrieve_kl.py::test_the_documented_example",
        "llm/test_documentation_examples.py::test_what_runs_there_runs_here",
    ),
    "inherited members": ("llm/test_kl_environments.py::test_inherited_members",),
}

MODULE_TRANSFORM = {
    "module or module_factory": ("transforms/test_module.py::test_either_a_module_or_a_factory",),
    "no_grad": ("transforms/test_module.py::test_gradients",),
    "inverse": ("transforms/test_module.py::test_inverse",),
    "device": ("transforms/test_module.py::test_device",),
    "use_ray_service, num_gpus, num_cpus, actor_name": (
        "ray/test_module_transform.py::test_in_an_environment",
        "ray/test_module_transform.py::test_what_can_not_be_made",
    ),
    "five *_spec_transform arguments": ("transforms/test_module.py::test_spec_transforms",),
    "a tensordict and keywords": ("transforms/test_module.py::test_calls",),
    "reset and step run it, and outputs are in the specs": (
        "transforms/test_module.py::test_fault_16_runs_at_reset_and_at_step",
    ),
}

FAULTS = {
    1: ("llm/test_retrieve_kl.py::test_fault_1_detach",),
    2: ("llm/test_retrieve_kl.py::test_fault_2_add_to_reward",),
    3: ("llm/test_retrieve_kl.py::test_fault_3_ragged_samples_with_default_keys",),
    4: ("llm/test_retrieve_kl.py::test_fault_4_keywords_have_an_effect",),
    5: ("llm/test_kl_transforms.py::test_fault_5_a_missing_log_prob_key",),
    6: ("ray/test_kl.py::test_use_ray_service_and_actor_name_and_faults_6_and_15",),
    7: ("llm/test_wrapper_against_torchrl.py::test_fault_7_packed_input_is_causal",),
    8: ("llm/test_wrapper_against_torchrl.py::test_fault_8_masks_are_passed_by_name",),
    9: ("llm/test_wrapper_against_torchrl.py::test_fault_9_the_first_token_has_a_log_probability",),
    10: ("llm/test_wrapper_against_torchrl.py::test_fault_10_sampled_pad_ids_are_tokens",),
    11: ("llm/test_wrapper_against_torchrl.py::test_fault_11_log_probs_know_the_temperature",),
    12: (
        "llm/test_wrapper_against_torchrl.py::test_fault_12_models_in_train_mode",
        "llm/test_retrieve_kl.py::test_fault_12_models_in_train_mode",
    ),
    13: ("llm/test_kl_environments.py::test_fault_13_specs_hold_what_is_written_with_its_shape",),
    14: ("llm/test_kl_transforms.py::test_fault_14_outside_an_environment",),
    15: ("ray/test_kl.py::test_use_ray_service_and_actor_name_and_faults_6_and_15",),
    16: ("transforms/test_module.py::test_fault_16_runs_at_reset_and_at_step",),
}
"""The sixteen of the checklist, by number."""

FURTHER_FAULTS = {
    "an assistant mask without a token": (
        "llm/test_assistant.py::test_a_template_that_hides_contents_is_refused",
        "llm/test_assistant.py::test_a_row_with_nothing_to_score_is_refused",
    ),
    "a span that starts at token 0": ("llm/test_assistant.py::test_a_span_that_begins_at_the_first_token",),
    "NaN at a masked position": ("llm/test_kl_estimators.py::test_what_is_masked_has_no_effect",),
    "k3 overflows": ("llm/test_kl_estimators.py::test_far_ratios_are_finite_and_gradients_keep_their_sign",),
}

ROWS: dict[str, tuple[str, ...]] = {
    **{f"RetrieveKL: {row}": held_by for row, held_by in RETRIEVE_KL.items()},
    **{f"ModuleTransform: {row}": held_by for row, held_by in MODULE_TRANSFORM.items()},
    **{f"fault {number}": held_by for number, held_by in FAULTS.items()},
    **{f"fault: {row}": held_by for row, held_by in FURTHER_FAULTS.items()},
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_held_by_a_test(row: str) -> None:
    assert [test for test in ROWS[row] if not is_there(test)] == []


def test_no_fault_is_left_out() -> None:
    """Those whose tests are called by their number are here, and the other way round."""
    assert [*FAULTS] == [*range(1, 17)]
    here = {test for tests in FAULTS.values() for test in tests}
    named = {
        f"{file.relative_to(TESTS).as_posix()}::{function}"
        for folder in ("llm", "ray", "transforms")
        for file in (TESTS / folder).glob("test_*.py")
        for function in names_in(file.relative_to(TESTS).as_posix())
        if function.startswith("test_fault_") or "_faults_" in function
    }
    assert named == here
