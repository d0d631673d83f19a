"""The contract of language models, row by row: which tests hold each promise, and each fault of TorchRL 0.14.1."""

from __future__ import annotations

import pytest

from benchmarks.language_models import CASES
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

ESTIMATORS = {
    "values, their bias and their variance": (
        "llm/test_kl_estimators.py::test_values_without_bias",
        "llm/test_kl_estimators.py::test_values_with_bias",
        "llm/test_kl_estimators.py::test_variances",
    ),
    "gradients as losses": (
        "llm/test_kl_estimators.py::test_losses_whose_gradient_is_right",
        "llm/test_kl_estimators.py::test_losses_whose_gradient_is_not",
        "llm/test_kl_estimators.py::test_the_gradient_of_k3_is_that_of_the_forward_kl",
    ),
    "as penalties in the reward": ("llm/test_kl_estimators.py::test_penalties_in_the_reward",),
    "of tokens that another policy drew": (
        "llm/test_kl_estimators.py::test_tokens_that_another_policy_drew",
    ),
    "full": ("llm/test_full_kl.py::test_values_and_rewards", "llm/test_full_kl.py::test_gradients"),
    "clamps": ("llm/test_kl_estimators.py::test_far_ratios_are_finite_and_gradients_keep_their_sign",),
    "of tokens and of sequences": ("llm/test_which_tokens.py::test_estimates_of_answers",),
    "generated": (
        "llm/test_generated_arithmetic.py::test_it_is_up_to_date",
        "llm/test_generated_arithmetic.py::test_losses_share_the_estimators",
    ),
}
"""By exact enumeration over a small vocabulary, but for the last two."""

LOG_PROBS = {
    "each family, left and right padding, packed, ragged": ("llm/test_log_probs.py::test_tokens",),
    "prompts of length 1, empty responses, spans that begin at token 0": (
        "llm/test_log_probs.py::test_tokens",
        "llm/test_log_probs.py::test_distributions",
        "llm/test_assistant.py::test_a_span_that_begins_at_the_first_token",
    ),
    "sequences cut by max_length": ("llm/test_log_probs.py::test_conversations_that_are_cut",),
    "sampled log-probs equal scored ones": (
        "llm/test_log_probs.py::test_sampled_log_probs_equal_scored_ones",
        "llm/test_sampling.py::test_sampled_log_probs_equal_scored_ones",
        "llm/test_autocast.py::test_tokens_are_scored_as_they_were_sampled",
    ),
    "against transformers' own rendering": ("llm/test_wrapper.py::test_scores_equal_transformers",),
    "gradients": ("llm/test_scoring.py::test_gradients_equal_the_plain_models",),
    "heads that are tied, soft-capped, adapted, or none": (
        "llm/test_scoring.py::test_soft_caps_are_found_where_they_hardly_show",
        "llm/test_scoring.py::test_adapted_heads_are_called",
        "llm/test_scoring.py::test_models_that_are_called_as_a_whole",
    ),
    "bfloat16": ("llm/test_scoring.py::test_half_precision",),
}
"""To 1e-5 of plain `transformers` and `log_softmax`."""

BAD_INPUT = {
    "mismatched batch sizes": (
        "llm/test_bad_input.py::test_batches_of_different_sizes",
        "llm/test_mistakes.py::test_advantages_of_other_shapes",
    ),
    "wrong roles": (
        "llm/test_bad_input.py::test_wrong_roles",
        "llm/test_bad_input.py::test_an_answer_of_another_role",
    ),
    "unknown template": ("llm/test_bad_input.py::test_an_unknown_template",),
    "models on different devices": (
        "llm/test_retrieve_kl.py::test_device_of_models_and_of_results",
        "llm/test_bad_input.py::test_models_without_weights",
    ),
    "NaN under the mask": ("llm/test_bad_input.py::test_no_numbers_outside_of_answers_have_no_effect",),
    "NaN outside it": ("llm/test_bad_input.py::test_no_numbers_in_answers_are_reported",),
}

FURTHER = {
    "the entries of TorchRL's classes": (
        "llm/test_forms_against_torchrl.py::test_entries",
        "llm/test_forms_against_torchrl.py::test_tokens_of_a_history",
        "llm/test_torchrl_names.py::test_names",
        "llm/test_torchrl_names.py::test_keywords",
    ),
    "models are loaded from folders": ("llm/test_loading.py::test_from_pretrained",),
    "an environment that passes check_env": (
        "llm/test_conversations_with_models.py::test_policy_reward_and_kl_make_one_environment",
        "llm/test_chat_env.py::test_contract",
        "llm/test_declared_kl_chains.py::test_the_contract",
    ),
    "losses on what it gives": (
        "llm/test_conversations_with_models.py::test_a_step_of_training",
        "llm/test_losses.py::test_sft_equals_that_of_full_logits",
    ),
    "a dead actor": ("ray/test_kl.py::test_use_ray_service_and_actor_name_and_faults_6_and_15",),
    "declared models, chains and pipelines": (
        "llm/test_declared_models.py::test_a_model_scores_as_one_that_is_loaded_by_hand",
        "llm/test_declared_kl_chains.py::test_a_penalty_in_the_reward",
        "llm/test_declared_pipeline.py::test_the_command_trains_and_the_reward_rises",
    ),
    "the example": ("examples/test_grpo_tiny.py::test_a_short_run",),
    "the page": ("docs/test_language_models_page.py::test_the_blocks_run",),
    "importing specgen_runtime imports no transformers": (
        "llm/test_loading.py::test_importing_brings_no_transformers",
        "llm/test_messages.py::test_importing_language_models_imports_no_transformers",
        "llm/test_messages.py::test_importing_the_runtime_imports_no_language_models",
    ),
}

NOT_TESTED = {
    "TorchRL's own tests through an import alias": "they are TorchRL's, and not here; whoever checks this runs them",
    "models split over GPUs (FSDP), flash attention": "there is no such device; the page of language models says so",
    "Ray clusters of several machines": "there is one machine; replicas, names and dead actors are tested on it",
}
"""What the contract names, or its users may try, and no test here can hold; with the reason."""

ROWS: dict[str, tuple[str, ...]] = {
    **{f"RetrieveKL: {row}": held_by for row, held_by in RETRIEVE_KL.items()},
    **{f"ModuleTransform: {row}": held_by for row, held_by in MODULE_TRANSFORM.items()},
    **{f"fault {number}": held_by for number, held_by in FAULTS.items()},
    **{f"fault: {row}": held_by for row, held_by in FURTHER_FAULTS.items()},
    **{f"estimators: {row}": held_by for row, held_by in ESTIMATORS.items()},
    **{f"log-probabilities: {row}": held_by for row, held_by in LOG_PROBS.items()},
    **{f"bad input: {row}": held_by for row, held_by in BAD_INPUT.items()},
    **FURTHER,
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


def test_what_is_not_tested_is_told() -> None:
    """Of what a user may try, the page says that nobody has."""
    page = " ".join((TESTS.parent / "docs/language_models.md").read_text(encoding="utf-8").split())
    assert "(FSDP) and flash attention have not been tried" in page
    assert "clusters of several machines have not been tried" in page
    assert all(NOT_TESTED.values())


def test_limits_of_measurements() -> None:
    """`python -m benchmarks language_models` measures them; times on a busy machine are no test."""
    limits = {name: (case.faster, case.smaller) for name, case in CASES.items()}
    assert [*limits["assistant"]] == [5, 20]
    assert [limits[name][0] for name in ("all", "backward", "small")] == [2.5, 5, 3]
