// abi.h: the part of Envoy's ABI for dynamic modules, "v0.2.0" (Envoy 1.40), that the gateway uses, and the interface between C and Go.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ABI_VERSION "v0.2.0"

typedef struct { const char *ptr; size_t length; } dm_buf;                                       // envoy_buffer and module_buffer
typedef struct { const char *name; size_t name_length; const char *value; size_t value_length; } dm_header;  // both http_header types

// All callbacks that are used: FUNCTION(result, name, arguments). They are weak, so that a library loaded by another Envoy can report what it lacks
// instead of being refused by the dynamic linker.
#define DM_CALLBACKS(FUNCTION) \
  FUNCTION(void, log, (int level, dm_buf message)) \
  FUNCTION(uint32_t, get_concurrency, (void)) \
  FUNCTION(void, bootstrap_extension_config_signal_init_complete, (void *config)) \
  FUNCTION(bool, http_set_header, (void *filter, int type, dm_buf name, dm_buf value)) \
  FUNCTION(size_t, http_get_headers_size, (void *filter, int type)) \
  FUNCTION(bool, http_get_headers, (void *filter, int type, dm_header *headers)) \
  FUNCTION(size_t, http_get_body_chunks_size, (void *filter, int body)) \
  FUNCTION(bool, http_get_body_chunks, (void *filter, int body, dm_buf *chunks)) \
  FUNCTION(bool, http_append_body, (void *filter, int body, dm_buf data)) \
  FUNCTION(bool, http_drain_body, (void *filter, int body, size_t bytes)) \
  FUNCTION(void, http_clear_route_cache, (void *filter)) \
  FUNCTION(void, http_set_buffer_limit, (void *filter, uint64_t bytes)) \
  FUNCTION(void, http_set_dynamic_metadata_string, (void *filter, dm_buf space, dm_buf key, dm_buf value)) \
  FUNCTION(bool, http_set_dynamic_metadata_struct, (void *filter, dm_buf space, dm_buf encoded)) \
  FUNCTION(bool, http_get_metadata_string, (void *filter, int source, dm_buf space, dm_buf key, dm_buf *value)) \
  FUNCTION(bool, http_filter_get_attribute_string, (void *filter, int attribute, dm_buf *value)) \
  FUNCTION(bool, http_get_cluster_name, (void *filter, dm_buf *name)) \
  FUNCTION(uint32_t, http_filter_get_worker_index, (void *filter)) \
  FUNCTION(void *, http_filter_scheduler_new, (void *filter)) \
  FUNCTION(void, http_filter_scheduler_commit, (void *scheduler, uint64_t event)) \
  FUNCTION(void, http_filter_scheduler_delete, (void *scheduler)) \
  FUNCTION(void, http_filter_continue_decoding, (void *filter)) \
  FUNCTION(void, http_filter_continue_encoding, (void *filter)) \
  FUNCTION(void, http_send_response, (void *filter, uint32_t status, dm_header *headers, size_t n, dm_buf body, dm_buf details)) \
  FUNCTION(void, http_send_response_headers, (void *filter, dm_header *headers, size_t n, bool end)) \
  FUNCTION(void, http_send_response_data, (void *filter, dm_buf data, bool end)) \
  FUNCTION(void, http_send_response_trailers, (void *filter, dm_header *trailers, size_t n)) \
  FUNCTION(int, http_filter_start_http_stream, (void *filter, uint64_t *id, dm_buf cluster, dm_header *headers, size_t n, dm_buf body, bool end, uint64_t timeout_ms)) \
  FUNCTION(void, http_filter_reset_http_stream, (void *filter, uint64_t id)) \
  FUNCTION(void, http_filter_reset_stream, (void *filter, int reason, dm_buf details))

#define DM_DECLARE(result, name, arguments) extern __attribute__((weak)) result envoy_dynamic_module_callback_##name arguments;
DM_CALLBACKS(DM_DECLARE)

// Kinds of header maps and bodies, in the callbacks.
enum { REQUEST_HEADERS = 0, RESPONSE_HEADERS = 2, RESPONSE_TRAILERS = 3 };
enum { RECEIVED_REQUEST = 0, BUFFERED_REQUEST = 1, RECEIVED_RESPONSE = 2, BUFFERED_RESPONSE = 3 };

// Results of a hook. The hooks of headers and trailers return the first two.
enum { CONTINUE = 0, STOP = 1, STOP_AND_WATERMARK = 2, STOP_NO_BUFFER = 3 };

// Kinds of filters.
enum { KIND_CLIENT = 1, KIND_ATTEMPT = 2 };

// dm_stream is the filter of one HTTP stream. C owns it; Go identifies it by worker and slot, because C must not hold Go pointers.
typedef struct {
  void *filter;
  uint32_t worker;
  uint32_t slot;  // 0: unknown to Go
  uint8_t kind;
  uint8_t local;  // the module answers: the hooks of its own answer do nothing
  uint8_t first;  // the first attempt, which is unknown to Go unless it fails
  uint8_t waits;  // an answer's head waits for the first piece of its body
} dm_stream;

// The watchdog of the workers: dm_visits counts the hooks that a worker entered and left, so that the number is odd within one, and Go changes it. While
// dm_watching is 0, entering one calls dm_watch_again.
enum { MAX_WORKERS = 256 };
typedef struct {
  uint64_t n;
  uint64_t unused[7];  // the rest of a cache line: each is changed by another thread
} dm_visit;
extern dm_visit dm_visits[MAX_WORKERS];
extern uint32_t dm_watching;
bool dm_watch(int workers, uint64_t hold_ns);
void dm_watch_again(void);

// Suffix of the names of clusters whose requests Go encodes.
#define RETRY_SUFFIX "~retry"

// Headers come from Go packed, because cgo forbids arrays of Go pointers: the count as a uint32, then for each header the lengths of name and value as
// uint32 (REMOVE: the header is removed) and their bytes.
#define REMOVE UINT32_MAX

// Go's operations: one call each. at: the body of the hook under way (RECEIVED_REQUEST or RECEIVED_RESPONSE), or -1 outside of hooks.
void dm_log(int level, dm_buf message);
void dm_forward(dm_stream *s, dm_buf headers, dm_buf body, dm_buf order, dm_buf exchange, int at);
void dm_answer(dm_stream *s, dm_buf headers, dm_buf body, int at);
void dm_reply(dm_stream *s, uint32_t status, dm_buf headers, dm_buf body, dm_buf details);
void dm_head(dm_stream *s, dm_buf headers);
void dm_data(dm_stream *s, dm_buf body, bool end);
void dm_trailers(dm_stream *s, dm_buf headers);
int dm_call(dm_stream *s, uint64_t *id, dm_buf cluster, dm_buf headers, dm_buf body);
void dm_reset_call(dm_stream *s, uint64_t id);
void dm_reset(dm_stream *s);
void dm_take(dm_stream *s);  // calls goRequestBody with the held part
void dm_drain(dm_stream *s, int received);
void dm_attempt(dm_stream *s, dm_buf headers, size_t length);
void dm_attempt_body(dm_stream *s, dm_buf body);
void dm_note(dm_stream *s, dm_buf key, dm_buf value);
void dm_status(dm_stream *s, dm_buf status);
dm_buf dm_noted(dm_stream *s, dm_buf key);
dm_buf dm_cluster(dm_stream *s);
void *dm_scheduler(dm_stream *s);
void dm_commit(void *scheduler, uint64_t event);
void dm_unschedule(void *scheduler);
