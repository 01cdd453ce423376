"""Modules without a test file of their own, by the file that tests them through a neighbour or a whole process.

A new module has its own test file. A row leaves this table when its module gets one.
"""

from collections.abc import Mapping
from typing import Final

_TESTS: Final = """
client/batch/test_batch_reads.py         client/batch/key_groups
jobs/prefetch/test_prefetcher.py         jobs/prefetch/prefetch_request jobs/prefetch/prefetch_tickets
scenarios/test_plans.py                  server/telemetry/plan_metrics
client/test_client.py                    client/batch/parallel_gets client/client_errors client/listing_reader
client/test_client.py                    client/object_downloads client/object_uploads client/objects
client/test_client_credentials.py        client/shared_profile
client/transport/test_request_sender.py  client/client_stats client/transport/body_checks
client/transport/test_request_sender.py  client/transport/object_request
client/transport/test_http_transport.py  client/transport/signed_request client/transport/upload_content
client/cli/test_commands.py              client/cli/argument_types client/cli/command_context client/cli/stats_screen
client/cli/test_commands.py              client/cli/text_tables client/cli/top_command client/cli/jobs_command
client/cli/test_commands.py              client/cli/ls_command
client/cli/test_commands.py              client/cli/datasets_command client/cli/advise_command
client/cli/test_command_line.py          client/cli/deferred_interrupts client/cli/proxy_commands client/cli/main main
client/cli/test_warm_command.py              client/cli/job_report client/cli/command_files client/cli/progress_display
scenarios/test_pytorch.py                client/torch/connector_datasets client/torch/dataset_client
scenarios/test_pytorch.py                client/torch/iterable_dataset client/torch/loader_hook client/torch/map_dataset
scenarios/test_pytorch.py                client/torch/object_dataset client/torch/packed_samples
scenarios/test_pytorch.py                client/torch/planned_sampler client/torch/sampler_preview
scenarios/test_pytorch.py                client/torch/shard_dataset client/torch/checkpoint_storage
scenarios/test_pytorch.py                client/torch/checkpoint_reads client/torch/saved_files
scenarios/test_pytorch.py                client/torch/lightning_checkpoints client/torch/saved_tensor
docs/test_cli_page.py                    client/cli/argument_parser
client/cli/test_commands.py                  client/cli/plans_command

client/shared_memory/test_socket_transport.py    client/shared_memory/channel_input
server/http/test_client_connection.py    server/http/socket_writes server/http/connection_services
server/http/test_client_connection.py    server/http/sending_connection
server/fastpath/test_fast_lane.py        server/fastpath/client_state server/fastpath/lane_answer
scenarios/test_arriving_uploads.py       server/http/small_uploads
request/batch/test_tar_output.py                 protocol/batch/batch_output
server/shared_memory/test_read_channel.py        server/shared_memory/socket_connection
client/test_filesystem.py                client/filesystem_errors client/filesystem_file client/filesystem_writes

fetch/test_ordered_body.py               fetch/block_source
core/test_fences.py                      core/names
protocol/packs/test_pack_index.py        protocol/packs/index_block
scenarios/test_packing.py                jobs/state/pack_order core/pack_actions jobs/packing/pack_services
scenarios/test_packing.py                jobs/packing/pack_run jobs/packing/present_pack
scenarios/test_packing.py                jobs/packing/packed_shards
scenarios/test_unpacking.py              jobs/packing/unpacking
scenarios/test_packing.py                server/admin/schema/pack_request
scenarios/test_packed_objects.py         metadata/packed_objects
scenarios/test_packed_objects.py         namespace/packs/pack_catalogue
scenarios/test_packed_deletions.py       write/packed_deletions
scenarios/test_packed_writes_at_once.py  write/member_writes
server/admin/test_explanation.py         server/admin/schema/object_state
jobs/packing/test_multipart_writer.py    origin/small_objects
scenarios/test_batch_members.py          request/batch/member_reads
client/cli/test_commands.py              client/cli/client_command client/cli/job_run
client/cli/test_commands.py              client/cli/command_table
client/cli/test_admin_client.py          client/cli/admin_address
client/test_forebay_resources.py          client/resource_calls
scenarios/test_packed_copies.py          request/packed_copies request/admitted_write
scenarios/test_packed_subresources.py    request/packed_subresources origin/origin_checks
namespace/test_snapshot_walk.py          namespace/snapshot
scenarios/test_listings.py               namespace/origin_pages
scenarios/test_listings_workers.py       namespace/namespace_owners
storage/ssd/test_ssd_directory.py        storage/durable_files
docs/test_metrics_page.py                server/worker_gauges
server/telemetry/test_metrics.py         server/telemetry/request_counts
docs/test_metrics_page.py                core/events server/telemetry/metric_table
fetch/test_ordered_body.py               core/buffers core/byte_ranges fetch/fetch_request
metadata/test_object_heads.py            core/heads
metadata/test_permissions.py             origin/origin_identity
metadata/test_version_fetch.py           metadata/lookup_request
metadata/test_shared_lookup.py           metadata/resolution
metadata/test_resolver.py                metadata/own_writes
namespace/test_listings.py               namespace/snapshots
fetch/test_run_reader.py                 fetch/run_source
origin/reads/test_verdict.py                   origin/reads/origin_read
origin/http/test_http_connection.py      origin/http/response_receiver
origin/test_origin_client_tls.py         origin/origin_server
scenarios/test_advice.py                 server/admin/worker/advice_rows
scenarios/test_data_sets.py              datasets/data_set_rows datasets/data_set_stats
scenarios/test_data_sets.py              server/admin/schema/data_set_schema
scenarios/test_pins.py                   server/admin/schema/pin_schema
scenarios/test_pins.py                   server/admin/worker/worker_pins server/admin/pin_changes
scenarios/test_plans.py                  server/admin/schema/plan_schema
storage/ssd/reclaim/test_ssd_pins.py             storage/ssd/reclaim/pin_gatherer storage/ssd/reclaim/record_copy
storage/ssd/reclaim/test_ssd_pools.py            storage/ssd/reclaim/ssd_pool
scenarios/test_data_set_objects.py       datasets/data_set_resource
protocol/packs/test_tar_members.py       protocol/tar_header
request/test_gateway.py                  protocol/exchange
request/test_resource_uploads.py         protocol/xml/parts_page
request/test_object_read.py              request/read_context
scenarios/test_cors.py                   request/cors_frontend request/cors_reply
jobs/plans/test_plan_store.py            jobs/plans/plan_entries jobs/plans/plan_files
jobs/plans/test_plan_runner.py           jobs/plans/entry_fetches
scenarios/test_plans.py                  jobs/plans/plan_resource
scenarios/test_recordings.py             core/recording_info
scenarios/test_plans.py                  jobs/plans/plan_allowance jobs/plans/plan_report core/plan_progress
scenarios/test_recordings.py             jobs/recordings/recording_resource
scenarios/test_recordings.py             server/parts/recording_parts
scenarios/test_several_origins.py        origin/origins origin/bucket_union server/parts/origin_parts
request/test_resource_router.py          request/resource request/verified_bodies
scenarios/test_batches.py                request/batch/batch_reader
core/test_sweep.py                       core/timers
datasets/test_data_sets.py               datasets/read_report
scenarios/test_slow_uploads.py           core/requester
security/test_cooperative_work.py        core/cooperative

demo/test_demo_run.py                    demo/demo_origin demo/forebay_server demo/sample_reader
demo/test_embedded_swift.py              demo/child_process demo/demo_directory demo/swift_layout demo/swift_server
test_serve.py                            demo/embedded_origin

origin/http/test_http_connection.py      origin/http/connection_pool origin/http/transport_errors
origin/http/test_http_connection.py      origin/http/receive_buffer
origin/http/test_http_connection.py      origin/http/receive_wait
origin/test_endpoint.py                  origin/http/loopback_resolver
origin/reads/test_sent_reads.py                origin/adopted_read
origin/test_origin_client.py             origin/http/session_transport origin/http/transport_response
origin/test_origin_client.py             origin/origin_request origin/response_framing
origin/test_origin_client_tls.py         origin/http/origin_tls
server/http/test_tls_clients.py          server/worker_tasks
origin/test_origin_client_against_origins.py    origin/dialects

protocol/oss/test_oss_documents.py       protocol/oss/oss_errors protocol/oss/oss_request_documents
protocol/oss/test_oss_documents.py       protocol/oss/oss_response_headers
protocol/oss/test_oss_request.py         protocol/oss/oss_headers protocol/oss/oss_operation_table
protocol/signatures/test_oss_verification.py    protocol/signatures/oss_canonical_request
protocol/signatures/test_oss_verification.py    protocol/signatures/oss_subresources
protocol/signatures/test_sigv2.py        protocol/signatures/sigv2_claim
protocol/signatures/test_sigv4.py        protocol/signatures/credential_checks protocol/signatures/verified_signature
protocol/test_conditions.py              protocol/header_map
protocol/xml/test_record_reader.py       protocol/xml/strict_parser
protocol/xml/test_tagging.py             protocol/xml/xml_tree

scenarios/test_policy.py                 server/gateway_policy settings/effective_config
scenarios/test_resizing.py               server/admin/worker/worker_control server/admin/worker/worker_stats
scenarios/test_resizing.py               server/admin/shared_control
server/admin/schema/test_stats_sum.py           server/admin/schema/stats_schema
jobs/warm_up/test_warm_ups.py            jobs/warm_up/warm_up_run
server/admin/test_routes.py              server/admin/admin_errors
server/admin/test_routes.py              server/admin/schema/admin_schema server/admin/admin_server
server/admin/test_routes.py              server/admin/control server/admin/request_reader settings/redaction
server/admin/worker/test_worker_recordings.py   server/admin/schema/recording_schema
server/http/test_listener.py             server/http/aiohttp_connection server/http/aiohttp_exchange
server/http/test_listener.py             server/request_service server/response_heads server/http/refusals
server/http/test_listener.py             server/http/parsed_requests
server/fastpath/test_direct_misses.py    server/fastpath/admitted_reads
server/shared_memory/test_channel_batch.py       server/shared_memory/batch_requests
server/telemetry/test_log_file.py        server/telemetry/access_log
server/test_worker.py                    server/composition server/config_source server/http/listening_sockets
server/test_worker.py                    server/parts/worker_context server/parts/state_paths server/parts/storage_parts
server/test_worker.py                    server/parts/fetch_parts server/parts/namespace_parts
server/test_worker.py                    server/parts/metadata_parts
server/test_worker.py                    server/parts/write_parts server/parts/request_parts server/parts/job_parts
server/test_worker.py                    server/connection_parts
server/rpc/test_peer_service.py          server/rpc/rpc_methods
server/rpc/test_peer_service.py          server/rpc/namespace_methods server/rpc/job_methods server/rpc/journal_methods
server/rpc/test_peer_service.py          server/rpc/node_read_methods
server/rpc/test_peer_service.py          server/parts/peer_parts

settings/test_loader.py                  settings/addresses settings/assembly
settings/test_loader.py                  settings/freshness_values settings/path_checks settings/problems
settings/test_loader.py                  settings/secret_lookup settings/settings_warnings settings/sources
settings/test_loader.py                  settings/secret settings/tree_reader
settings/test_setting_table.py           settings/model settings/rule_settings settings/setting settings/auth_table
settings/test_setting_table.py           settings/limit_table settings/origin_table settings/rule_table
settings/test_setting_table.py           settings/server_table settings/storage_table

storage/ssd/test_ssd_tier.py             storage/ssd/block_reads storage/tier_contract
storage/ssd/test_ssd_tier.py             storage/ssd/index/stored_objects
storage/ssd/test_ssd_tier_model.py       storage/ssd/index/index_updates storage/ssd/reclaim/reclaim

server/admin/worker/test_worker_writes.py       core/pending_write write/back/node_backlog request/write_resource
server/admin/worker/test_worker_writes.py       server/admin/schema/pending_schema
scenarios/test_write_back.py             write/back/accept/acceptance write/back/accept/object_acceptance
scenarios/test_write_back.py             server/parts/write_back_parts
scenarios/test_write_back_uploads.py     write/back/accept/upload_acceptance write/back/accept/part_listing
scenarios/test_write_back_small_parts.py write/back/accept/joined_parts
scenarios/test_write_back_moves.py       write/back/accept/upload_room
write/back/test_write_barriers.py        write/interim_responses
scenarios/test_write_back_listings.py    namespace/listing_answer
scenarios/test_write_back_origins.py     write/back/journal_loader
scenarios/test_write_back_origin_faults.py   write/back/drain/persist_outcome write/back/drain/upload_preparation
scenarios/test_write_back_origin_faults.py   write/back/drain/origin_uploads
scenarios/test_write_back_proofs.py      write/back/accept/write_probe
scenarios/test_write_back_crashes.py     write/back/write_back write/back/write_back_context
scenarios/test_write_back_crashes.py     write/back/acceptance_parts write/back/drain_parts
scenarios/test_write_back_crashes.py     write/back/record_parts write/back/duty_parts
write/back/test_journal_check.py         journal_commands
storage/journal/test_body_file.py        storage/journal/journal_layout

workers/test_node_control.py             workers/worker_pool workers/worker_calls workers/node_jobs
workers/test_supervisor.py               workers/node_pins
request/test_form_upload.py              request/document_reply
workers/test_supervisor.py               settings/worker_share workers/node_worker
workers/test_supervisor.py               workers/parent_watch workers/worker_main
"""

TESTED_ELSEWHERE: Final[Mapping[str, str]] = {
    module: test for test, *modules in map(str.split, filter(None, _TESTS.splitlines())) for module in modules
}
"""Module, as in `storage/ssd/index/index`, to its test file below tests/."""
