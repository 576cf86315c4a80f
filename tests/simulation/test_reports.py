"""What users of TPUs have reported, and the tests that hold tpufn to the right outcome of each.

The table is checked: a test that is renamed or dropped is missed here. `STORMS` come on top of all of them.
"""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REPORTS: dict[str, tuple[str, ...]] = {
    "1 reclaimed but still listed": (
        "scenarios/test_preemption.py::reclaimed_but_still_listed",
        "contracts/test_tpu_cloud.py::every_way_to_lose_a_node_is_seen",
    ),
    "2 husks keep their quota": (
        "decide/test_autoscale.py::our_husks_are_deleted",
        "scenarios/test_scarcity.py::a_husk_is_deleted_and_the_slot_used_again",
        "simulation/test_supply.py::a_preemption_frees_the_chips_and_the_husk_keeps_the_quota",
    ),
    "3 granted long after everybody gave up": (
        "scenarios/test_scarcity.py::a_grant_that_comes_long_after_everybody_gave_up",
        "scenarios/test_scarcity.py::a_late_grant_is_adopted_for_a_waiting_job",
        "decide/test_observe.py::each_state_has_a_budget_of_its_own",
        "scenarios/test_scarcity.py::a_grant_for_a_pool_that_left_the_file_meanwhile",
    ),
    "4 delete refused": (
        "scenarios/test_scarcity.py::a_delete_that_is_refused_is_repeated",
        "decide/test_records.py::deletes_back_off",
    ),
    "5 a slow create is not a failed one": (
        "decide/test_observe.py::a_slow_create_is_not_a_failed_one",
        "scenarios/test_scarcity.py::a_create_without_an_answer",
        "scenarios/test_field.py::a_create_that_stays_unfinished_while_the_node_is_ready",
    ),
    "6 stockout late": (
        "scenarios/test_scarcity.py::a_stockout_that_comes_late_leaves_no_husk",
        "decide/test_observe.py::failed_data_cools_its_scope_like_a_refusal",
    ),
    "7 insufficient reserved capacity": (
        "decide/test_records.py::insufficient_reserved_capacity_is_structural_after_two_hits",
        "decide/test_explain.py::a_job_that_every_pool_refuses_for_good_is_unschedulable",
    ),
    "8 limit 0 in a wider scope": (
        "decide/test_refusals.py::limit_zero_elsewhere_does_not_close_this_region",
        "simulation/test_supply.py::quota_speaks_in_both_wordings",
        "scenarios/test_scarcity.py::a_full_quota_is_armed_by_our_own_release",
    ),
    "9 quota failures that nobody sees": (
        "decide/test_explain.py::each_pool_says_what_is_in_the_way",
        "decide/test_explain.py::the_last_outcome_is_in_the_cloud_s_own_words",
    ),
    "10 names": (
        "domain/test_accelerators.py::aliases_become_the_names_of_the_api",
        "domain/test_accelerators.py::impossible_sizes_name_the_nearest_ones",
    ),
    "11 runtime of the wrong generation": (
        "spec/test_deployment.py::wrong_file_names_place_and_fix",
        "spec/test_deployment.py::odd_runtime_with_permission",
    ),
    "12 too few external addresses": (
        "decide/test_refusals.py::every_text_has_its_meaning",
        "deploy/test_doctor.py::private_tpus_need_no_addresses",
        "spec/test_deployment.py::tpu_runner_file",
    ),
    "13 two surfaces of one stockout": (
        "decide/test_records.py::two_surfaces_of_one_stockout_can_both_be_recorded",
        "decide/test_refusals.py::any_answer_at_all_is_classified",
    ),
    "14 a specification error is terminal at once": (
        "scenarios/test_scarcity.py::a_structural_refusal_is_not_tried_again_until_the_file_changes",
    ),
    "15 an entry that left the file": (
        "scenarios/test_scarcity.py::a_pool_that_left_the_file_drains",
        "decide/test_autoscale.py::a_pool_that_left_the_file_drains_to_nothing",
        "scenarios/test_field.py::an_entry_that_gets_another_name",
    ),
    "16 READY without endpoints": ("scenarios/test_limits.py::ready_is_not_usable_for_a_while",),
    "17 all workers but one": (
        "scenarios/test_limits.py::a_tpu_that_never_boots_is_replaced_without_a_cool_down",
        "scenarios/test_field.py::all_workers_answer_but_one",
    ),
    "18 health is missing": (
        "contracts/test_tpu_cloud.py::missing_health_is_unspecified",
        "domain/test_values.py::ready_means_ready_healthy_and_with_endpoints",
        "scenarios/test_field.py::unhealthy_for_maintenance_while_the_work_goes_on",
        "scenarios/test_field.py::an_unhealthy_tpu_is_not_launched_on",
    ),
    "19 recycled address, new host key": (
        "ssh/test_connection.py::first_key_is_pinned_and_another_refused",
        "ssh/test_connection.py::known_hosts_of_the_user_is_untouched",
    ),
    "20 OS Login names": ("ssh/test_identity.py::user_names", "ssh/test_identity.py::os_login_profile"),
    "21 IAP's codes": (
        "ssh/test_iap.py::codes_before_the_tunnel_stands",
        "ssh/test_iap.py::late_4003_is_infrastructure",
    ),
    "22 device still busy": (
        "worker/test_devices.py::busy_device_ends_the_attempt",
        "scenarios/test_sick_workers.py::a_busy_device_costs_the_tpu_and_nothing_else",
    ),
    "23 a machine that always crashes": (
        "scenarios/test_sick_workers.py::a_machine_that_always_kills_is_quarantined",
        "decide/test_attempts.py::two_quick_failures_condemn_a_tpu",
    ),
    "24 sibling death": ("scenarios/test_sick_workers.py::sibling_death_is_no_application_failure",),
    "25 preempted during set-up": ("scenarios/test_preemption.py::preempted_during_set_up_is_no_set_up_failure",),
    "26 a preemption that nobody noticed": (
        "scenarios/test_sick_workers.py::a_silent_worker_is_lost_after_three_heartbeats",
        "scenarios/test_preemption.py::a_notice_that_nobody_hears_is_found_by_the_tick",
    ),
    "27 a cancel that leaves holders": (
        "worker/test_stop.py::stop_leaves_nothing",
        "scenarios/test_people.py::a_cancel_that_leaves_something_behind_costs_the_tpu",
    ),
    "28 a kill that takes long": ("scenarios/test_sick_workers.py::a_slow_kill_never_overlaps_with_the_next_attempt",),
    "29 two hundred assigns over twenty slots": ("system/test_concurrency.py::200_assign_events_over_20_slots",),
    "30 a retry keeps its place": (
        "decide/test_attempts.py::a_retry_keeps_its_place_in_the_queue",
        "decide/test_heads.py::a_waiting_retry_keeps_its_warm_tpu",
        "scenarios/test_field.py::a_flood_does_not_take_the_place_of_a_retry",
    ),
    "31 one creation fires three times": (
        "scenarios/test_happy.py::every_event_twice_is_the_same_as_once",
        "scenarios/test_field.py::one_creation_that_is_told_three_times",
    ),
    "32 shuffled and dropped events": (
        "scenarios/test_happy.py::late_and_shuffled_events_change_nothing",
        "system/test_life.py::ticks_alone",
    ),
    "33 a trigger's body is protobuf": (
        "contracts/test_wire.py::a_documents_change_in_binary_mode",
        "contracts/test_wire.py::the_path_of_a_document_says_all",
    ),
    "34 a handler that timed out runs on": (
        "system/test_concurrency.py::a_handler_past_its_claim_beside_its_twin",
        "scenarios/test_crashes.py::other_trouble_at_every_sixth_boundary",
    ),
    "35 too much contention": ("contracts/test_firestore.py::contended_commits_lose_nothing",),
    "36 a document of a megabyte": (
        "decide/test_submit.py::problems_are_all_told_and_bounded",
        "worker/test_evidence.py::tail_is_bounded",
        "scenarios/test_field.py::no_document_grows_with_what_failed",
    ),
    "37 the scheduler fires twice": ("scenarios/test_happy.py::two_ticks_at_once_do_the_work_once",),
    "38 environment values of any kind": (
        "worker/test_command.py::environment_values_arrive_byte_for_byte",
        "worker/test_command.py::command_arrives_byte_for_byte",
    ),
    "39 what YAML makes of words": ("spec/test_jobs.py::plain_words_in_env_are_text",),
    "40 ignore files as git reads them": (
        "spec/test_ignore.py::same_files_as_git",
        "spec/test_ignore.py::same_answer_as_check_ignore",
    ),
    "41 links": (
        "spec/test_bundle.py::links_that_lead_astray_are_named",
        "spec/test_bundle.py::limits_name_the_largest_paths",
    ),
    "42 the first deploy waits for Eventarc's agent": (
        "deploy/test_steps.py::the_first_deploy_waits_for_eventarcs_agent",
        "deploy/test_steps.py::again_changes_nothing",
    ),
    "43 an index that only production needs": (
        "contracts/test_firestore_indexes.py::every_index_that_a_query_needs_is_shipped_and_no_other",
    ),
}


def test_every_report_has_its_number() -> None:
    assert [int(title.split()[0]) for title in REPORTS] == list(range(1, 44))


@pytest.mark.parametrize("report", REPORTS)
def test_its_tests_are_there(report: str) -> None:
    for place in REPORTS[report]:
        file, _, name = place.partition("::")
        assert re.search(rf"^def test_{name}\(", (TESTS / file).read_text(), re.MULTILINE), place
