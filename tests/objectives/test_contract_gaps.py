"""What generated losses needed of the runtime, and how it is known that they are right: which tests hold it, row by row."""

from __future__ import annotations

import pytest

from tests.named_tests import is_there
from tests.objectives.every_loss import OWN, losses

GAPS = {
    1: (
        "objectives/test_several_outputs.py::test_outputs_and_gradients",
        "objectives/test_declared.py::test_one_forward_for_each_network_and_record",
        "objectives/test_policies.py::test_draws_by_hand",
    ),
    2: (
        "objectives/test_ensembles.py::test_members_one_by_one",
        "objectives/test_ensembles.py::test_the_action_of_every_member",
        "objectives/test_policies.py::test_draws_by_hand",
        "objectives/test_ensembles.py::test_members_that_vmap_cannot_run_are_called_one_after_another",
    ),
    3: (
        "objectives/test_evaluation_mode.py::test_evaluation_leaves_the_mode_of_the_loss",
        "objectives/test_crossq.py::test_batch_normalisation_equals_torchrl",
        "objectives/test_crossq.py::test_the_loss_keeps_its_mode_and_the_policy_reads_values_in_evaluation",
    ),
    4: ("objectives/test_contract_rows.py::test_members_draw_as_vmap_randomness_says",),
    5: (
        "objectives/test_loss_module.py::test_out_keys_are_selected",
        "objectives/test_loss_module.py::test_losses_are_modules_of_tensordict",
        "objectives/test_loss_conditions.py::test_there_is_what_the_parameters_ask_for",
        "objectives/test_parts.py::test_what_is_not_selected_is_not_computed",
    ),
    6: (
        "objectives/test_contract_rows.py::test_networks_that_stay_children_compute_the_same",
        "objectives/test_modes.py::test_networks_of_losses_that_are_not_functional_are_children",
        "objectives/test_modes.py::test_frozen_copies_follow_networks_that_are_no_part_of_the_loss",
    ),
    7: (
        "objectives/test_loss_estimators.py::test_estimators_find_the_network_of_a_renamed_value",
        "objectives/test_loss_estimators.py::test_v_trace_reads_the_log_probability_under_the_name_that_the_loss_has",
    ),
    8: (
        "objectives/test_estimators.py::test_networks_are_not_in_the_state",
        "objectives/test_loss_estimators.py::test_estimators_of_dqn_have_its_network",
        "objectives/test_loss_estimators.py::test_estimators_have_the_networks_of_the_moment",
    ),
    9: (
        "objectives/test_estimators.py::test_keys_that_are_read_and_written",
        "objectives/test_estimators_against_torchrl.py::test_multi_agent",
        "objectives/test_losses_of_agents.py::test_each_agent_is_a_sample",
    ),
    10: (
        "objectives/test_modes.py::test_forward_and_the_methods_of_terms_run_in_the_modes",
        "objectives/test_modes.py::test_torchrls_recurrent_networks_read_sequences_in_losses",
        "objectives/test_recurrent_networks.py::test_dqn_is_torchrls",
    ),
    11: (
        "objectives/test_modes.py::test_tensors_by_keyword_have_the_batch_that_their_roles_say",
        "objectives/test_loss_module.py::test_tensors_by_keyword_have_the_batch_of_the_rewards",
        "objectives/test_loss_estimates.py::test_tensors_by_keyword",
    ),
    12: ("objectives/test_contract_rows.py::test_a_priority_that_has_no_place_is_named",),
    13: (
        "cases/losses/term_with_an_ensemble",
        "objectives/test_contract_rows.py::test_a_mask_of_samples_is_that_of_each_of_their_agents",
    ),
    14: (
        "objectives/test_learnables.py::test_what_is_fixed_is_a_buffer",
        "objectives/test_learnables.py::test_a_moved_number_is_brought_back_and_a_passed_one_is_read_there",
        "objectives/test_torchrl_names.py::test_temperatures_are_attributes",
        "objectives/test_klpen.py::test_what_adapts_is_in_the_state_and_restored",
    ),
    15: (
        "objectives/test_contract_rows.py::test_members_of_constant_parameters_are_equal_and_modules_of_their_own_are_not",
        "objectives/test_every_loss.py::test_a_state_of_torchrls_loss",
        "objectives/test_torchrl_names.py::test_states_of_losses_that_were_never_called",
    ),
    16: (
        "objectives/test_contract_rows.py::test_stateful_networks_compute_what_the_loss_does",
        "modules/test_torchrl_names.py::test_names",
        "modules/test_draws.py::test_a_draw_and_its_log_prob",
        "modules/test_draws.py::test_what_stands_for_a_distribution",
        "modules/test_discrete_distributions.py::test_masked_is_torchrls",
        "modules/test_continuous_distributions.py::test_truncated_normal_is_torchrls",
    ),
    17: (
        "objectives/test_torchrl_names.py::test_keywords",
        "objectives/test_contract_rows.py::test_words_are_checked_when_a_loss_is_made",
        "objectives/test_contract_rows.py::test_keywords_that_were_replaced_say_by_what",
        "objectives/test_modes.py::test_updaters_move_every_member_of_an_ensemble",
        "objectives/test_plain_networks.py::test_what_is_not_trained",
    ),
    18: (
        "objectives/test_contract_rows.py::test_networks_in_another_order_are_refused",
        "objectives/test_contract_rows.py::test_numbers_that_make_no_loss_are_refused_when_it_is_made",
        "objectives/test_td3.py::test_one_of_two_keywords_says_the_bounds",
    ),
}
"""What generated classes needed of the runtime, by number."""

PROOFS = {
    "each loss against its paper": ("objectives/test_papers_of_policies.py::test_every_loss_has_one",),
    "estimators against a plain float64 loop": (
        "objectives/test_value_functions.py::test_equal_plain_loops",
        "objectives/test_value_functions.py::test_vtrace_equals_a_plain_loop",
        "objectives/test_value_functions.py::test_n_step_equals_a_plain_loop",
    ),
    "estimators by gradcheck": ("objectives/test_value_functions.py::test_gradients",),
    "estimators equal TorchRL's": (
        "objectives/test_estimators_against_torchrl.py::test_equals_torchrl",
        "objectives/test_value_functions_against_torchrl.py::test_equals_torchrl",
    ),
    "memory linear in time": ("objectives/test_recurrence.py::test_memory_for_gradients_is_linear_in_time",),
    "gradients stop where they must": (
        "objectives/test_every_loss.py::test_terms_train_what_they_say",
        "objectives/test_every_loss.py::test_metrics_have_no_gradients",
        "objectives/test_loss_gradients.py::test_targets_are_computed_without_gradients",
    ),
    "one graph of torch.compile": ("objectives/test_every_loss.py::test_it_compiles_in_one_graph",),
    "autocast to bfloat16": ("objectives/test_every_loss.py::test_it_runs_in_bfloat16",),
    "vmap over sets of parameters": (
        "objectives/test_every_loss.py::test_several_sets_of_parameters_at_once",
    ),
    "pickling": ("objectives/test_every_loss.py::test_copies",),
    "a state of TorchRL's loss loads": ("objectives/test_every_loss.py::test_a_state_of_torchrls_loss",),
    "intended differences have tests": ("docs/test_differences.py::test_each_row_names_one_test",),
    "mistakes are diagnostics at their line": (
        "test_cases.py::test_case",
        "right/test_mistakes_in_right_schemas.py::test_the_mistake_is_found_wherever_it_is_made",
    ),
    "benchmarks compare equal computations": ("benchmarks/test_flat_losses.py::test_same_outputs",),
}
"""How it is known: those lines that tests can prove."""

EQUAL = {
    "A2CLoss": "test_policy_gradients",
    "BCLoss": "test_behavior_cloning",
    "CISPOLoss": "test_grpo",
    "CQLLoss": "test_cql",
    "ClipPPOLoss": "test_policy_gradients",
    "CrossQLoss": "test_crossq",
    "DAPO": "test_grpo",
    "DDPGLoss": "test_ddpg",
    "DQNLoss": "test_dqn",
    "DTLoss": "test_decision_transformer",
    "DiscreteCQLLoss": "test_discrete::test_cql_equals_torchrl",
    "DiscreteIQLLoss": "test_discrete::test_iql_equals_torchrl",
    "DiscreteSACLoss": "test_discrete_sac",
    "DistillationLoss": "test_distillation::test_equals_torchrls",
    "DistributionalDQNLoss": "test_distributional_dqn",
    "GAILLoss": "test_gail",
    "GRPOLoss": "test_grpo",
    "IPPOLoss": "test_mappo",
    "IQLLoss": "test_iql",
    "KLPENPPOLoss": "test_klpen",
    "MAPPOLoss": "test_mappo",
    "OnlineDTLoss": "test_online_dt",
    "PPOLoss": "test_policy_gradients",
    "QMixerLoss": "test_qmixer::test_value_and_gradients_are_torchrls",
    "REDQLoss": "test_redq",
    "RNDLoss": "test_rnd",
    "ReinforceLoss": "test_policy_gradients",
    "SACLoss": "test_sac",
    "SFTLoss": "test_sft::test_sft_equals_torchrls",
    "TD3BCLoss": "test_td3",
    "TD3Loss": "test_td3",
    "TQCLoss": "test_tqc",
}
"""The test of each loss that compares values and gradients with TorchRL's: `test_equals_torchrl`, unless said."""

ROWS: dict[str, tuple[str, ...]] = {
    **{f"gap {number}": held_by for number, held_by in GAPS.items()},
    **{f"known by: {row}": held_by for row, held_by in PROOFS.items()},
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_held_by_a_test(row: str) -> None:
    assert ROWS[row]
    assert [test for test in ROWS[row] if not is_there(test)] == []


def test_no_number_is_left_out() -> None:
    assert [*GAPS] == [*range(1, 19)]


def test_every_loss_of_torchrl_is_compared_with_it() -> None:
    assert losses().keys() - EQUAL.keys() == OWN, "TorchRL has no such loss"
    for place in EQUAL.values():
        file, _, function = place.partition("::")
        assert is_there(f"objectives/{file}.py::{function or 'test_equals_torchrl'}")
