"""The cases of the stock Python client's own public suite that this version answers for, by name, in groups.

Names are `file:case` without `_test.py` and `test_`. Nothing of the suite itself is here. `FURTHER` are cases that need
schemas or table views: run with the others, promised by nobody yet. Not listed: TLS and authentication, compaction,
and what starts containers or calls a public server.
"""

from __future__ import annotations

_CLIENT_ONLY = {
    "asyncio": "set_future_noop_when_future_already_resolved set_future_noop_when_future_cancelled",
    "pulsar": """
        auth_junk_params auto_cluster_failover_argument_errors auto_cluster_failover_client
        client_argument_errors connect_error connect_timeout consumer_argument_errors consumer_config
        dead_letter_policy_config exception_inheritance invalid_chunking_config json_schema_encode
        keyshare_policy keyshared_invalid_sticky_ranges producer_argument_errors producer_config
        service_info_argument_errors service_info_provider_client
    """,
    "schema": """
        complex defaults encode_decode_nested_message encode_decode_roundtrip encode_produces_protobuf_binary
        field_type_check field_type_check_defaults file_descriptor_set_is_valid_base64_proto initialization
        invalid_enum json_schema_encode_remove_reserved_key non_message_class_raises non_sorted_fields none_value
        schema_array_wrong_type schema_definition_keys schema_definition_values schema_name schema_type
        serialize_avro serialize_json serialize_schema_complex serialize_wrong_types simple sorted_fields
        sub_record_set_to_none type_promotion wrong_type_raises
    """,
}
_CORE = {
    "asyncio": """
        async_dead_letter_policy batch_end_to_end close_producer consumer_cumulative_acknowledge
        consumer_get_last_message_id consumer_individual_acknowledge consumer_negative_acknowledge
        create_producer_failure flush multi_topic_consumer producer_is_connected reader_has_message_available
        reader_on_last_message reader_on_specific_message reader_seek reader_simple seek_message_id
        seek_timestamp send_failure send_keyed_message shutdown_client unsubscribe
    """,
    "custom_logger": "async_func_with_custom_logger logger_thread_leaks",
    "debug_logger": "configure_log_level configure_log_to_file",
    "interrupted": "sigint",
    "pulsar": """
        acknowledge_failed batch_index_ack batch_receive chunking client_reference_deleted
        consumer_initial_position consumer_is_connected consumer_name consumer_queue_size_is_zero
        dead_letter_policy deliver_after deliver_at deserialize_msg_id_with_topic encryption encryption_failure
        get_last_message_id get_topic_name keyshared_autosplit listener_name_client message_argument_errors
        message_id message_listener null_value_message null_value_vs_empty_bytes null_value_with_properties
        ordering_key producer_access_mode_exclusive producer_access_mode_exclusive_with_fencing
        producer_access_mode_wait_exclusive producer_consumer producer_consumer_zstd producer_is_connected
        producer_routing_mode producer_send producer_send_async reader_argument_errors
        reader_has_message_available reader_is_connected reader_on_last_message reader_on_specific_message
        reader_on_specific_message_with_batches reader_seek_for_message_id reader_simple redelivery_count
        regex_subscription seek seek_inclusive send_async_no_deadlock shutdown_client simple_producer
        sticky_autosplit v2_topics
    """,
    "reader": "has_message_available_after_seek seek_latest_message_id",
}
_ADMIN_REST = {
    "asyncio": "get_partitioned_topic_name get_topics_partitions",
    "pulsar": """
        get_partitioned_topic_name get_topics_partitions message_router producer_deduplication
        producer_sequence_after_reconnection reader_on_partitioned_topic topics_consumer topics_pattern_consumer
        v2_topics_http
    """,
}
_FURTHER = {
    "asyncio": "schema",
    "pulsar": "message_properties negative_acks null_value_table_view",
    "schema": """
        avro_enum avro_map_array avro_required_default avro_schema bytes_schema default_value json_enum json_schema
        produce_and_consume_complex_schema_data schema_evolve schema_type_promotion schema_version string_schema
    """,
    "table_view": "for_each get schema",
}


def _names(cases: dict[str, str]) -> list[str]:
    return [f"{file}:{case}" for file, names in cases.items() for case in names.split()]


GROUPS: dict[str, list[str]] = {
    "client-only": _names(_CLIENT_ONLY),
    "core": _names(_CORE),
    "admin REST": _names(_ADMIN_REST),
    "further": _names(_FURTHER),
}
