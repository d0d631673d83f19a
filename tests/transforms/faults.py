"""Faults of TorchRL 0.14.1's transforms that were reproduced, and the tests which hold that they are none here."""

from __future__ import annotations

FAULTS: dict[str, tuple[str, ...]] = {
    "ActionDiscretizer: a box of whole numbers is given floats": (
        "transforms/test_actions.py::test_bounds_are_needed",
    ),
    "ActionDiscretizer: a box that is bounded on one side only gives infinity": (
        "transforms/test_actions.py::test_bounds_are_needed",
    ),
    "ActionDiscretizer: draws from the global generator": (
        "transforms/test_reproduced_faults.py::test_actions_are_drawn_from_the_generator_of_the_environment",
        "transforms/test_actions.py::test_a_place_at_random_is_in_its_cell_and_comes_from_the_seed",
    ),
    "ActionDiscretizer: without an environment": (
        "transforms/test_reproduced_faults.py::test_bounds_that_nobody_knows",
    ),
    "ActionMask: after a partial reset every row has the mask of a fresh state": (
        "transforms/test_action_mask.py::test_random_actions_are_allowed",
    ),
    "ActionMask: a random action for an older tensordict uses the newest mask": (
        "transforms/test_action_mask.py::test_the_mask_is_that_of_the_tensordict",
    ),
    "BurnInTransform: the state is not in the data, other numbers of dimensions": (
        "transforms/test_replay_sequences.py::test_burn_in",
    ),
    "CatFrames: partial resets of two dimensions": (
        "transforms/test_reproduced_faults.py::test_frames_of_rows_that_are_reset_alone",
    ),
    "CatFrames: stepping one tensordict twice repeats its frame": (
        "transforms/test_library_against_torchrl.py::test_stepping_the_same_data_twice_gives_the_same_frames",
    ),
    "CatFrames: another batch size": (
        "transforms/test_reproduced_faults.py::test_the_same_transform_at_another_batch_size",
    ),
    "CatFrames: frames in a state dict that can't be loaded": (
        "transforms/test_reproduced_faults.py::test_frames_are_no_part_of_a_state_dict",
    ),
    "CatFrames: padding outside of the bounds of the spec": (
        "transforms/test_library_against_torchrl.py::test_frames_of_padding_are_in_the_spec",
    ),
    "CatFrames: two reset keys": ("transforms/test_reproduced_faults.py::test_two_reset_keys",),
    "CatTensors: bounds are lost": (
        "transforms/test_reproduced_faults.py::test_bounds_stand_behind_one_another",
    ),
    "CatTensors: keys are sorted": (
        "transforms/test_keywords_of_torchrl.py::test_keys_in_their_order",
        "transforms/test_library_against_torchrl.py::test_keys_keep_their_order",
    ),
    "CatTensors: a state that is deleted": (
        "transforms/test_reproduced_faults.py::test_what_the_environment_steps_from_may_be_joined_or_renamed",
    ),
    "Crop, CenterCrop: `w` is the height": ("transforms/test_images_against_torchrl.py::test_images",),
    "ClipTransform: whole numbers become floats": (
        "transforms/test_limits_and_stacks_against_torchrl.py::test_limits_of_whole_numbers",
    ),
    "ClipTransform: bounds are widened, and replace tighter ones": (
        "transforms/test_limits_and_stacks_against_torchrl.py::test_tighter_bounds_stay",
    ),
    "ConditionalSkip: a part of a locked batch is not skipped": (
        "transforms/test_skips_and_noops.py::test_a_condition_of_ones_own",
        "transforms/test_skips_and_noops.py::test_rows_that_are_skipped_keep_everything",
    ),
    "DiscreteActionProjection: a nested action of a group": (
        "transforms/test_reproduced_faults.py::test_projected_actions_of_a_group",
    ),
    "DiscreteActionProjection: draws from the global generator": (
        "transforms/test_reproduced_faults.py::test_actions_are_drawn_from_the_generator_of_the_environment",
        "transforms/test_actions_against_torchrl.py::test_projections_are_drawn_evenly_and_from_the_seed",
    ),
    "ExcludeTransform: `inverse=True` breaks resets": (
        "transforms/test_keywords_of_torchrl.py::test_left_out_on_the_way_in",
    ),
    "ExcludeTransform: a state, or an earlier counter": (
        "transforms/test_library_against_torchrl.py::test_state_and_counters_can_be_dropped_and_renamed",
    ),
    "ExcludeTransform: all done flags can be removed": (
        "transforms/test_library_against_torchrl.py::test_flags_can_not_be_dropped",
        "cases/chains/flag_dropped",
    ),
    "FlattenAction: one-hot actions": ("transforms/test_actions.py::test_kinds_survive_a_reshape",),
    "FlattenObservation: one-hot rows": (
        "transforms/test_reproduced_faults.py::test_one_hot_rows_one_behind_the_other_are_no_one_hot",
    ),
    "FrameSkipTransform: steps from the same root again": (
        "transforms/test_around.py::test_frame_skip_is_a_loop_of_each_row",
    ),
    "FrameSkipTransform: goes on after done": (
        "transforms/test_around.py::test_frame_skip_is_a_loop_of_each_row",
        "transforms/test_around.py::test_simulators_stay_where_they_are_done",
    ),
    "FrameSkipTransform: counters and sums before it see one of its steps": (
        "transforms/test_around.py::test_frame_skip_is_a_loop_of_each_row",
        "cases/around/counts_repetitions",
    ),
    "Hash: tensors with a batch": ("transforms/test_unary.py::TestHash::test_tensors_with_a_batch",),
    "Hash: long tensors that differ": ("transforms/test_unary.py::TestHash::test_long_tensors_differ",),
    "Hash: its own state dict": ("transforms/test_unary.py::TestHash::test_state_dict",),
    "ModuleTransform: a reset never runs it": (
        "transforms/test_module.py::test_fault_16_runs_at_reset_and_at_step",
        "transforms/test_module.py::test_partial_resets_run_it",
    ),
    "ModuleTransform: new keys without a spec function": (
        "transforms/test_module.py::test_specs_are_inferred",
    ),
    "ModuleTransform: calls by keyword": ("transforms/test_module.py::test_calls",),
    "ModuleTransform: rollouts carry gradients": ("transforms/test_module.py::test_gradients",),
    "MultiAction: an episode that ends inside": (
        "transforms/test_actions_against_torchrl.py::test_ends_inside",
    ),
    "MultiAction: memory on the object": (
        "transforms/test_reproduced_faults.py::test_a_step_that_is_repeated_gives_the_same",
    ),
    "MultiAction: rewards without the shape of their flags": (
        "transforms/test_actions_against_torchrl.py::test_several_actions",
    ),
    "MultiStepTransform: done flags do not move with the observation": (
        "transforms/test_replay_sequences.py::test_a_window_that_ends_says_so",
    ),
    "MultiStepTransform: unrelated trajectories are joined": (
        "transforms/test_replay_sequences.py::test_unrelated_data_are_not_joined",
    ),
    "MultiStepTransform: too few moments": (
        "transforms/test_replay_sequences.py::test_nothing_is_lost_while_there_is_too_little",
        "data/test_replay_buffer.py::TestTransforms::test_several_steps_hold_data_back",
    ),
    "NoopResetEnv: one noop never acts": (
        "transforms/test_skips_and_noops.py::test_noops_are_steps_of_each_row",
        "transforms/test_skips_and_noops.py::test_random_numbers_of_noops",
    ),
    "NoopResetEnv: batches are refused": (
        "transforms/test_skips_and_noops.py::test_noops_are_steps_of_each_row",
        "transforms/test_skips_and_noops.py::test_noops_of_rows_that_are_reset",
    ),
    "NoopResetEnv: counters before it, and `is_init`": (
        "transforms/test_skips_and_noops.py::test_noops_are_steps_of_each_row",
    ),
    "ObservationNorm: statistics are a table over time": (
        "transforms/test_observation_norm.py::test_observation_norm_learns_once",
    ),
    "ObservationNorm: fitted numbers can't be loaded into a new object": (
        "transforms/test_observation_norm.py::test_observation_norm_learns_once",
    ),
    "ObservationNorm: a negative scale leaves low above high": (
        "transforms/test_semantics.py::test_bounds_are_mapped",
    ),
    "ObservationNorm: specs fail before fitting": (
        "transforms/test_observation_norm.py::test_observation_norm_learns_once",
    ),
    "RandomCropTensorDict: a slice of the whole length, the last start": (
        "transforms/test_replay_sequences.py::test_crops_reach_both_ends",
    ),
    "RandomTruncationTransform: flags of nested groups do not follow": (
        "transforms/test_reproduced_faults.py::test_flags_of_agents_follow_a_random_end_of_the_team",
    ),
    "RandomTruncationTransform: a reset without a mask never draws anew": (
        "transforms/test_draws.py::TestRandomTruncation::test_each_reset_draws",
        "transforms/test_draws.py::TestRandomTruncation::test_that_there_were_episodes_is_saved",
    ),
    "RenameTransform: a state without its inverse": (
        "transforms/test_reproduced_faults.py::test_what_the_environment_steps_from_may_be_joined_or_renamed",
    ),
    "RenameTransform: swaps are refused": (
        "transforms/test_library_against_torchrl.py::test_state_and_counters_can_be_dropped_and_renamed",
        "transforms/test_actions.py::test_names_change_places",
    ),
    "Resize: `w` is the height": ("transforms/test_resize_against_torchrl.py::test_agrees",),
    "Reward2GoTransform: an unfinished tail behind an end": (
        "transforms/test_recursion.py::test_data_that_end_inside_an_episode_are_refused",
    ),
    "Reward2GoTransform: flags of the root and rewards of a group": (
        "transforms/test_recursion.py::test_flags_at_the_root_end_rewards_of_a_group",
    ),
    "RewardClipping: its default fails": (
        "transforms/test_reproduced_faults.py::test_rewards_are_not_clipped_where_no_limit_is_given",
    ),
    "RewardClipping: bounded rewards are refused": (
        "transforms/test_reproduced_faults.py::test_bounded_rewards_are_clipped",
    ),
    "RNDTransform: never learns its statistics": (
        "transforms/test_networks.py::test_intrinsic_rewards_of_normalised_observations",
    ),
    "SelectTransform: unknown keys are accepted": (
        "transforms/test_reproduced_faults.py::test_keys_that_are_selected_are_there",
    ),
    "SelectTransform: an earlier counter": (
        "transforms/test_reproduced_faults.py::test_a_counter_that_nobody_sees_goes_on",
    ),
    "SelectTransform: the state stays in the data, not in the spec": (
        "transforms/test_reproduced_faults.py::test_a_state_that_is_not_selected_is_in_neither_data_nor_specs",
    ),
    "TargetReturn: float32 of one number, whatever the spec says": (
        "transforms/test_reproduced_faults.py::test_the_return_to_come_is_like_the_reward",
    ),
    "TargetReturn: two reset keys": ("transforms/test_reproduced_faults.py::test_two_reset_keys",),
    "TensorDictPrimer: batches": ("transforms/test_primer.py::test_specs_get_the_batch_size",),
    "TensorDictPrimer: two reset keys": (
        "transforms/test_primer.py::test_groups_and_several_reset_keys",
        "transforms/test_primer.py::test_beside_agents_that_end_on_their_own",
    ),
    "TensorDictPrimer: a primer with the action's name": (
        "transforms/test_primer.py::test_an_action_stays_an_action",
    ),
    "TimeMaxPool: zeros before the first values": (
        "transforms/test_library_against_torchrl.py::test_maxima_of_negative_values",
    ),
    "TimeMaxPool: memory on the object": (
        "transforms/test_reproduced_faults.py::test_a_step_that_is_repeated_gives_the_same",
    ),
    "TimeMaxPool: recorded data": ("transforms/test_reproduced_faults.py::test_maxima_of_recorded_data",),
    "UnaryTransform: the inner action stays in the outer spec": ("transforms/test_unary.py::test_actions",),
    "UnaryTransform: the spec of an action is that of `fn`": (
        "transforms/test_unary.py::test_the_spec_of_an_action_is_what_its_own_function_takes",
    ),
    "VecNorm: recorded data teach it": (
        "transforms/test_statistics.py::test_data_from_elsewhere_teach_nothing",
    ),
    "VecNorm: partial resets count all rows": (
        "transforms/test_statistics.py::test_rows_that_stand_still_do_not_count",
    ),
    "VecNormV2: the variance before the bias correction": (
        "transforms/test_vec_norm_v2.py::test_one_row_after_the_other",
    ),
    "VecNormV2: counts rows that were not reset": (
        "transforms/test_vec_norm_v2.py::test_each_row_counts_what_it_saw",
        "transforms/test_vec_norm_v2.py::test_a_batch_counts_the_rows_that_are_new",
    ),
    "VecNormV2: loading shares memory with the source": (
        "transforms/test_vec_norm_v2.py::test_saved_and_loaded",
        "transforms/test_vec_norm_v2.py::test_copies",
    ),
    "VecNormV2: recorded data": ("transforms/test_vec_norm_v2.py::test_recorded_data_teach_nothing",),
    "VecNormV2: an unfitted state dict loads silently": (
        "transforms/test_vec_norm_v2.py::test_what_does_not_fit_is_refused",
    ),
    "VecNormV2: whole numbers": ("transforms/test_vec_norm_v2.py::test_whole_numbers_become_floats",),
}
"""By the name of the transform."""
