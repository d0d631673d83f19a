"""The contract of pipelines, row by row: which case folders and tests hold each check and each promise."""

from __future__ import annotations

import re

import pytest

from tests.named_tests import TESTS, is_there
from tests.pipelines.mistakes import MISTAKES
from tests.pipelines.rules import RULES

TEMPLATES = (
    "DQNCartPole",
    "PPOCartPole",
    "PPOPendulum",
    "SACMountainCar",
    "TD3Pendulum",
    "MAPPOTag",
    "DiscreteSACFrozenLake",
    "IQLPendulum",
    "TQCPendulum",
)

PROMISES = {
    "a killed training that is resumed is one that was not killed": (
        "training/test_resume.py::test_killed_at_random_moments",
        "training/test_resume.py::test_printed_trainings_that_were_killed",
        "pipelines/test_training.py::test_an_interrupted_training_goes_on_bit_by_bit",
        "pipelines/test_trunks.py::test_a_training_that_was_stopped_goes_on_bit_by_bit",
        "pipelines/test_workers.py::test_a_training_that_was_stopped_goes_on_bit_by_bit",
    ),
    "a full disk keeps the last checkpoint": (
        "training/test_checkpoints.py::test_a_full_disk_keeps_the_last",
        "training/test_checkpoints.py::test_killed_at_every_step_of_a_save",
        "data/test_saving.py::test_a_full_disk_keeps_what_was_saved_last",
    ),
    "a worker that was killed in a batch is replaced, and the run ends": (
        "ray/test_collector.py::test_a_killed_actor_is_replaced_and_the_run_ends",
        "ray/test_printed_training.py::test_a_killed_actor_is_replaced_and_the_training_ends",
        "pipelines/test_workers.py::test_a_killed_worker_is_replaced_and_the_training_ends",
        "collectors/test_multi.py::test_a_worker_that_is_killed_in_a_batch_is_replaced",
    ),
    "replay buffers are TorchRL's, keyword by keyword": (
        "data/test_against_torchrl.py::test_random_calls",
        "data/test_against_torchrl.py::test_priorities",
        "data/test_against_torchrl.py::test_slices",
        "data/test_torchrl_names.py::test_keywords",
        "data/test_torchrl_names.py::test_methods",
    ),
    "collectors are TorchRL's, keyword by keyword": (
        "collectors/test_against_torchrl.py::test_batches",
        "collectors/test_against_torchrl.py::test_keyword",
        "collectors/test_against_torchrl.py::test_split_trajectories",
    ),
    "frequencies of prioritized samples": (
        "data/test_prioritized.py::TestSampling::test_frequencies",
        "data/test_prioritized.py::TestTree::test_draws_are_those_of_the_whole_sum",
    ),
    "several steps, slices, files, priorities of new rows": (
        "data/test_replay_buffer.py::TestTransforms::test_several_steps_hold_data_back",
        "data/test_slices.py::test_parts_are_unbroken",
        "data/test_replay_buffer.py::TestStorages::test_files_and_their_end",
        "data/test_prioritized.py::TestSampling::test_new_rows_have_the_largest_priority",
    ),
    "printed trainings pass both type checkers": (
        "typing/test_generated_code.py::test_packages_pass_strict_pyright",
        "typing/test_generated_code.py::test_it_is_clean",
        "typing/test_programs.py::test_errors_stand_where_they_are_marked",
    ),
    "updates are those of TorchRL's losses": (
        "benchmarks/test_learning.py::test_updates_are_those_of_torchrl",
    ),
    "right pipelines without a word": (
        "pipelines/test_right_pipelines.py::test_nothing_is_said",
        "pipelines/test_right_pipelines.py::test_there_are_many",
        "pipelines/test_right_pipelines.py::test_the_same_declaration_in_python_gives_the_same_files",
    ),
    "slips give diagnostics and no traceback": (
        "pipelines/test_pipeline_mutants.py::test_slips_give_diagnostics",
    ),
    "what each rule is for is told": (
        "diagnostics/test_docs.py::test_every_rule_stands_on_the_page_and_says_what_happens_without_it",
        "diagnostics/test_docs.py::test_every_rule_has_a_case_or_a_test_that_expects_it",
    ),
    "each random stream by itself": (
        "pipelines/test_training.py::test_seeds_differ_in_all_that_is_drawn",
        "pipelines/test_update.py::test_the_global_generator_has_no_part_in_an_update",
        "training/test_schedules.py::test_streams_are_apart",
    ),
    "a command line of the configuration": (
        "training/test_command_line.py::test_help_says_what_a_training_can_be_told",
        "training/test_command_line.py::test_a_training_from_the_command_line",
    ),
    "progress, logs, curves, videos, Ctrl-C": (
        "training/test_run_around.py::test_a_bar_in_a_terminal",
        "training/test_run_around.py::test_tensorboard",
        "training/test_run_around.py::test_wandb",
        "training/test_pictures.py::test_several_seeds",
        "training/test_pictures.py::test_the_video_shows_the_episode",
        "training/test_resume.py::test_ctrl_c_saves_and_ends_with_130",
    ),
    "native environments can be seen": (
        "envs/test_rendering.py::test_things_are_where_gymnasium_draws_them",
        "envs/test_rendering.py::test_what_can_not_be_drawn_is_named",
    ),
    "templates make projects": (
        "cli/test_init_template.py::test_a_project_of_each_template_builds_what_the_library_has",
        "cli/test_init_template.py::test_it_trains_with_the_command_that_was_said",
    ),
    "the demo": ("examples/test_demo_cartpole.py::test_the_demo_is_solved",),
}

ROWS: dict[str, tuple[str, ...]] = {
    **{f"mistake: {row}": held_by for row, held_by in MISTAKES.items()},
    **{f"rule: {row}": held_by for row, held_by in RULES.items()},
    **PROMISES,
}


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_held_by_a_test(row: str) -> None:
    assert ROWS[row]
    assert [test for test in ROWS[row] if not is_there(test)] == []


@pytest.mark.parametrize(
    "case", sorted({one for held_by in ROWS.values() for one in held_by if one.startswith("cases/")})
)
def test_each_case_is_a_diagnostic(case: str) -> None:
    """A folder whose schemas are accepted proves nothing of a mistake."""
    said = (TESTS / case / "diagnostics.txt").read_text(encoding="utf-8")
    assert re.search(r"^(error|warning)\[SG\d{3}\]", said, re.MULTILINE)


def test_there_are_many_wrong_pipelines() -> None:
    """Those that are refused, not only warned of."""
    refused = [
        path.parent.name
        for path in (TESTS / "cases" / "pipelines").glob("*/diagnostics.txt")
        if re.search(r"^error\[", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(refused) >= 40


@pytest.mark.parametrize("template", TEMPLATES)
def test_each_template_has_learned_with_three_seeds(template: str) -> None:
    """The page shows what was measured: as printed, and with TorchRL's loss."""
    page = (TESTS.parent / "docs" / "training.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^\| `{template}`, -?[\d.]+ \| specgen (.*\n)\|  \| TorchRL's loss (.*\n)", page, re.MULTILINE
    )
    assert found
    for row in found.groups():
        _, frames, seconds, _ = (cell.strip() for cell in row.split("|"))
        assert len(re.findall(r"\d[\d,]*(?=, |$)", frames)) == 3
        assert len(seconds.split(", ")) == 3
        assert "not" not in row


@pytest.mark.peers
def test_limits_of_wall_time() -> None:
    """`python -m benchmarks training` measures them; times on a busy machine are no test."""
    pytest.importorskip("torchrl", reason="the extra `peers`")
    from benchmarks.training import GYM, LIMITS, NATIVE

    assert LIMITS[GYM] >= 5
    assert LIMITS[NATIVE] >= 3
