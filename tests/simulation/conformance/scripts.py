"""The scripts. Each returns its answers, and what a broker (Kafka 4.3.1, librdkafka 2.16.1) has answered."""

from collections.abc import Callable

from tests.simulation.conformance import grouping, losing, reading, refusing, transactions, writing
from tests.simulation.conformance.world import Answer, World

Script = Callable[[World], tuple[list[Answer], list[Answer]]]

SCRIPTS: list[Script] = [
    reading.an_open_transaction_holds_back_the_last_stable_offset,
    reading.a_damaged_batch_is_an_error_at_its_first_offset,
    reading.aborted_records_and_markers_take_offsets,
    reading.an_end_is_shown_once_each_time_it_is_reached,
    reading.deleted_records_are_out_of_range,
    reading.offsets_are_found_by_timestamp,
    reading.a_marker_is_found_by_its_timestamp,
    reading.a_topic_that_is_created_again_is_another,
    reading.watermarks_are_of_the_topic_that_was_read,
    reading.what_was_fetched_before_a_topic_was_deleted_is_delivered,
    reading.partitions_are_added,
    reading.offsets_of_a_group_have_metadata,
    losing.an_epoch_is_committed_with_an_offset,
    reading.offsets_of_a_group_go_with_the_topic,
    reading.statistics_show_what_was_fetched,
    writing.records_arrive_as_they_were_sent,
    writing.a_queue_is_bounded_and_purged,
    writing.a_record_is_too_large,
    writing.a_timestamp_is_in_the_future,
    writing.a_partition_is_missing,
    writing.a_topic_is_created_again_under_its_producer,
    transactions.the_state_allows_a_call,
    transactions.a_newer_producer_fences_one_with_records,
    transactions.a_newer_producer_fences_one_with_offsets,
    transactions.a_fenced_producer_raises_once_at_a_flush,
    transactions.an_empty_transaction_takes_no_request,
    transactions.a_transaction_outlives_its_time_out,
    transactions.an_offset_in_an_open_transaction_is_unstable,
    transactions.the_later_offset_counts,
    transactions.a_record_that_is_refused_must_be_aborted,
    transactions.a_commit_whose_answer_is_late,
    transactions.an_abort_whose_answer_is_late,
    transactions.a_commit_is_known_though_a_newer_producer_came,
    transactions.a_topic_is_deleted_under_a_transaction,
    transactions.a_record_to_a_deleted_topic_must_be_aborted,
    transactions.a_transaction_cannot_begin_with_a_deleted_topic,
    transactions.a_record_without_a_partition_must_be_aborted,
    grouping.members_share_the_partitions,
    grouping.commits_are_fenced_by_the_membership,
    grouping.a_member_that_hears_nothing_has_lost_its_partitions,
    grouping.added_partitions_are_given_to_members,
    grouping.a_paused_partition_continues_where_it_was,
]

LOSSES: list[Script] = [
    losing.a_seek_with_an_epoch_finds_where_the_logs_part,
    losing.a_reader_notices_a_loss_under_it,
    losing.a_member_that_seeks_finds_where_the_logs_part,
    losing.markers_of_a_later_epoch_part_from_the_last_record,
]
"""Scripts that restart the broker."""

REFUSALS: list[Script] = [
    refusing.a_topic_may_not_be_read,
    refusing.a_topic_may_not_be_written,
    refusing.a_group_may_not_be_used,
    refusing.a_transactional_id_may_not_be_used,
]
"""Scripts that need a broker with ACLs."""
