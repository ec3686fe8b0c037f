// shim.c: Envoy's hooks, which collect what Go needs in one call, and Go's operations.
#define _GNU_SOURCE  // memmem
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

#define CB(name) envoy_dynamic_module_callback_##name
#define ON(name) envoy_dynamic_module_on_##name

static dm_buf text(const char *s) { return (dm_buf){s, strlen(s)}; }

// ---- The process.

// Envoy does not expose its version to modules; it must have every function that is called.
static const char *lacking(void) {
#define DM_CHECK(result, name, arguments) if (CB(name) == NULL) return #name;
  DM_CALLBACKS(DM_CHECK)
  return NULL;
}

const char *ON(program_init)(void) {
  const char *name = lacking();
  if (name == NULL) return ABI_VERSION;
  fprintf(stderr, "bardo: this Envoy does not offer %s of the dynamic module ABI " ABI_VERSION ": run the module with Envoy 1.40, or use data_path: extproc\n", name);
  return NULL;
}

static char process;  // one per process; Envoy only needs its address

void *ON(bootstrap_extension_config_new)(void *envoy, dm_buf name, dm_buf config) {
  (void)name;
  if (!goStart(config, CB(get_concurrency)())) return NULL;
  CB(bootstrap_extension_config_signal_init_complete)(envoy);  // no listener opens earlier
  return &process;
}
void *ON(bootstrap_extension_new)(void *config, void *envoy) { (void)config, (void)envoy; return &process; }
void ON(bootstrap_extension_drain_started)(void *envoy, void *module) { (void)envoy, (void)module; goDrain(); }
void ON(bootstrap_extension_shutdown)(void *envoy, void *module, void (*done)(void *), void *context) {
  (void)envoy, (void)module;
  goShutdown();
  done(context);
}

// ---- Filters.

void *ON(http_filter_config_new)(void *envoy, dm_buf name, dm_buf config) {
  (void)envoy, (void)config;
  int kind = name.length == 7 && memcmp(name.ptr, "attempt", 7) == 0 ? KIND_ATTEMPT : KIND_CLIENT;
  return goStarted() ? (void *)(intptr_t)kind : NULL;
}
void ON(http_filter_config_destroy)(void *config) { (void)config; }

void *ON(http_filter_new)(void *config, void *filter) {
  dm_stream *s = calloc(1, sizeof *s);
  if (s == NULL) abort();
  s->filter = filter;
  s->kind = (uint8_t)(intptr_t)config;
  s->worker = CB(http_filter_get_worker_index)(filter);
  return s;
}
void ON(http_filter_stream_complete)(void *filter, dm_stream *s) { (void)filter, (void)s; }
void ON(http_filter_destroy)(dm_stream *s) {
  if (s->slot) goGone(s);
  free(s);
}

// list is an array of headers or pieces of a body, on the stack if it is short.
enum { FEW_HEADERS = 64, FEW_CHUNKS = 16 };
static void *list(void *few, size_t fit, size_t n, size_t size) {
  if (n <= fit) return few;
  void *many = malloc(n * size);
  if (many == NULL) abort();
  return many;
}
static void list_free(void *few, void *many) { if (many != few) free(many); }

static dm_buf attribute(void *filter, int id) {
  dm_buf b = {0};
  CB(http_filter_get_attribute_string)(filter, id, &b);
  return b;
}
enum { RESPONSE_CODE_DETAILS = 16, SOURCE_ADDRESS = 24 };

// trailers drops a provider's trailers, like its headers.
static int trailers(dm_stream *s, dm_header *h, size_t n) {
  void *f = s->filter;
  int r = goAnswerTrailers(s);
  if (r == CONTINUE) return r;  // not a provider's answer
  for (size_t i = 0; i < n; i++) CB(http_set_header)(f, RESPONSE_TRAILERS, (dm_buf){h[i].name, h[i].name_length}, (dm_buf){0});
  return r;
}

static int head(dm_stream *s, int type, bool end) {
  dm_header few[FEW_HEADERS];
  size_t n = CB(http_get_headers_size)(s->filter, type);
  dm_header *h = list(few, FEW_HEADERS, n, sizeof *h);
  if (n) CB(http_get_headers)(s->filter, type, h);
  int r;
  if (s->kind == KIND_ATTEMPT)
    r = type == REQUEST_HEADERS ? goAttempt(s, h, n) : goAttemptHead(s, h, n, end);
  else if (type == REQUEST_HEADERS)
    r = goRequest(s, h, n, end, attribute(s->filter, SOURCE_ADDRESS));
  else if (type == RESPONSE_TRAILERS)
    r = trailers(s, h, n);
  else
    r = goAnswer(s, h, n, end, attribute(s->filter, RESPONSE_CODE_DETAILS));
  list_free(few, h);
  return r;
}

// body passes the buffered and the new pieces, which are numbered consecutively.
static int body(dm_stream *s, int received, bool end) {
  dm_buf few[FEW_CHUNKS];
  void *f = s->filter;
  size_t held = CB(http_get_body_chunks_size)(f, received + 1), now = CB(http_get_body_chunks_size)(f, received), n = held + now;
  dm_buf *c = list(few, FEW_CHUNKS, n, sizeof *c);
  if (held) CB(http_get_body_chunks)(f, received + 1, c);
  if (now) CB(http_get_body_chunks)(f, received, c + held);
  int r;
  if (s->kind == KIND_ATTEMPT) r = goAttemptAnswer(s, c, n);
  else if (received == RECEIVED_REQUEST) r = goRequestBody(s, c, n, end);
  else r = goAnswerBody(s, c, n, end);
  list_free(few, c);
  return r;
}

// ---- First attempts. Almost all of them succeed, without calling Go.

static bool ends_with(dm_buf b, const char *end) {
  size_t n = strlen(end);
  return b.length >= n && memcmp(b.ptr + b.length - n, end, n) == 0;
}
static bool contains(const char *p, size_t n, const char *part) { return memmem(p, n, part, strlen(part)) != NULL; }

static int attempt(dm_stream *s, bool end) {
  if (ends_with(dm_cluster(s), RETRY_SUFFIX)) return head(s, REQUEST_HEADERS, end);
  s->first = dm_noted(s, text("exchange")).length > 0;
  return CONTINUE;
}

// tell announces the attempt to Go.
static void tell(dm_stream *s) {
  s->first = 0;
  dm_header few[FEW_HEADERS];
  size_t n = CB(http_get_headers_size)(s->filter, REQUEST_HEADERS);
  dm_header *h = list(few, FEW_HEADERS, n, sizeof *h);
  if (n) CB(http_get_headers)(s->filter, REQUEST_HEADERS, h);
  goFirstAttempt(s, h, n);
  list_free(few, h);
}

// first_head reports a failed answer to Go, passes a stream on, and holds other answers until they are complete.
static int first_head(dm_stream *s, bool end) {
  dm_header few[FEW_HEADERS];
  size_t n = CB(http_get_headers_size)(s->filter, RESPONSE_HEADERS);
  dm_header *h = list(few, FEW_HEADERS, n, sizeof *h);
  if (n) CB(http_get_headers)(s->filter, RESPONSE_HEADERS, h);
  bool good = false, streams = false;
  for (size_t i = 0; i < n; i++) {
    if (h[i].name_length == 7 && memcmp(h[i].name, ":status", 7) == 0) good = h[i].value_length > 0 && h[i].value[0] == '2';
    if (h[i].name_length == 12 && memcmp(h[i].name, "content-type", 12) == 0) streams = contains(h[i].value, h[i].value_length, "text/event-stream");
  }
  list_free(few, h);
  if (good && streams) return CONTINUE;
  if (good && !end) {
    s->waits = 1;
    return STOP;
  }
  tell(s);
  return head(s, RESPONSE_HEADERS, end);
}

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// begins_well reports whether a body cannot be an error, see errorShape in attempt.go: an object whose first member is neither "error" nor "type"
// nor "object". If the first piece is not enough, Go decides.
static bool begins_well(void *f) {
  dm_buf few[FEW_CHUNKS];
  int from = BUFFERED_RESPONSE;
  size_t n = CB(http_get_body_chunks_size)(f, from);
  if (n == 0) n = CB(http_get_body_chunks_size)(f, from = RECEIVED_RESPONSE);
  if (n == 0 || n > FEW_CHUNKS) return false;
  CB(http_get_body_chunks)(f, from, few);
  const char *at = few[0].ptr, *end = at + few[0].length;
  while (at < end && blank(*at)) at++;
  if (at == end || *at++ != '{') return false;
  while (at < end && blank(*at)) at++;
  if (end - at < 2 || *at != '"') return false;
  return at[1] != 'e' && at[1] != 't' && at[1] != 'o' && at[1] != '\\';
}

// first_whole passes a complete answer on.
static int first_whole(dm_stream *s) {
  s->waits = 0;
  if (begins_well(s->filter)) return CONTINUE;
  tell(s);
  head(s, RESPONSE_HEADERS, false);
  return body(s, RECEIVED_RESPONSE, true);
}

int ON(http_filter_request_headers)(void *f, dm_stream *s, bool end) { (void)f; return s->kind == KIND_ATTEMPT ? attempt(s, end) : head(s, REQUEST_HEADERS, end); }
int ON(http_filter_request_body)(void *f, dm_stream *s, bool end) {
  if (!s->slot) return CONTINUE;
  if (s->kind == KIND_ATTEMPT) return goAttemptBody(s, end);
  if (!s->local) return body(s, RECEIVED_REQUEST, end);
  CB(http_drain_body)(f, RECEIVED_REQUEST, SIZE_MAX);
  return STOP_NO_BUFFER;
}
int ON(http_filter_request_trailers)(void *f, dm_stream *s) { (void)f; return s->kind == KIND_CLIENT && s->slot ? goRequestTrailers(s) : CONTINUE; }

static bool skips(dm_stream *s) { return s->local || !s->slot; }
int ON(http_filter_response_headers)(void *f, dm_stream *s, bool end) {
  (void)f;
  if (s->first) return first_head(s, end);
  return skips(s) ? CONTINUE : head(s, RESPONSE_HEADERS, end);
}
int ON(http_filter_response_body)(void *f, dm_stream *s, bool end) {
  (void)f;
  if (s->first) return !s->waits ? CONTINUE : end ? first_whole(s) : STOP;
  if (skips(s)) return CONTINUE;
  if (s->kind == KIND_ATTEMPT && !goAttemptHolds(s)) return CONTINUE;
  if (s->kind == KIND_ATTEMPT && !end) return STOP;
  return body(s, RECEIVED_RESPONSE, end);
}
int ON(http_filter_response_trailers)(void *f, dm_stream *s) {
  (void)f;
  if (s->first) return s->waits ? first_whole(s) : CONTINUE;
  if (skips(s)) return CONTINUE;
  if (s->kind == KIND_CLIENT) return head(s, RESPONSE_TRAILERS, true);
  return goAttemptHolds(s) ? body(s, RECEIVED_RESPONSE, true) : CONTINUE;
}
int ON(http_filter_local_reply)(void *f, dm_stream *s, uint32_t code, dm_buf details, bool reset) {
  (void)f, (void)s, (void)code, (void)details, (void)reset;
  return CONTINUE;
}
void ON(http_filter_scheduled)(void *f, dm_stream *s, uint64_t event) { (void)f; if (s->slot) goScheduled(s, event); }
void ON(http_filter_downstream_above_write_buffer_high_watermark)(void *f, dm_stream *s) { (void)f; if (s->slot) goWatermark(s, 1); }
void ON(http_filter_downstream_below_write_buffer_low_watermark)(void *f, dm_stream *s) { (void)f; if (s->slot) goWatermark(s, -1); }

void ON(http_filter_http_stream_headers)(void *f, dm_stream *s, uint64_t id, dm_header *h, size_t n, bool end) { (void)f; if (s->slot) goCallHead(s, id, h, n, end); }
void ON(http_filter_http_stream_data)(void *f, dm_stream *s, uint64_t id, dm_buf *c, size_t n, bool end) { (void)f; if (s->slot) goCallBody(s, id, c, n, end); }
void ON(http_filter_http_stream_trailers)(void *f, dm_stream *s, uint64_t id, dm_header *h, size_t n) { (void)f, (void)h, (void)n; if (s->slot) goCallBody(s, id, NULL, 0, true); }
void ON(http_filter_http_stream_complete)(void *f, dm_stream *s, uint64_t id) { (void)f, (void)s, (void)id; }
void ON(http_filter_http_stream_reset)(void *f, dm_stream *s, uint64_t id, int reason) { (void)f; if (s->slot) goCallReset(s, id, reason); }

// Hooks that Envoy requires and the gateway does not use.
#define UNUSED(name) void ON(name)(void) {}
UNUSED(http_filter_http_callout_done) UNUSED(http_filter_config_scheduled)
UNUSED(http_filter_config_http_callout_done) UNUSED(http_filter_config_http_stream_complete) UNUSED(http_filter_config_http_stream_data)
UNUSED(http_filter_config_http_stream_headers) UNUSED(http_filter_config_http_stream_reset) UNUSED(http_filter_config_http_stream_trailers)
UNUSED(bootstrap_extension_config_destroy) UNUSED(bootstrap_extension_destroy) UNUSED(bootstrap_extension_server_initialized)
UNUSED(bootstrap_extension_worker_thread_initialized) UNUSED(bootstrap_extension_config_scheduled) UNUSED(bootstrap_extension_http_callout_done)
UNUSED(bootstrap_extension_timer_fired) UNUSED(bootstrap_extension_file_changed) UNUSED(bootstrap_extension_admin_request)
UNUSED(bootstrap_extension_cluster_add_or_update) UNUSED(bootstrap_extension_cluster_removal)
UNUSED(bootstrap_extension_listener_add_or_update) UNUSED(bootstrap_extension_listener_removal)

// ---- Operations.

// unpack fills n headers, which point into the packed ones.
static size_t unpack_count(dm_buf p) {
  uint32_t n = 0;
  if (p.length >= sizeof n) memcpy(&n, p.ptr, sizeof n);
  return n;
}
static void unpack(dm_buf p, dm_header *h, size_t n) {
  const char *at = p.ptr + sizeof(uint32_t);
  for (size_t i = 0; i < n; i++) {
    uint32_t l[2];
    memcpy(l, at, sizeof l);
    at += sizeof l;
    h[i] = (dm_header){at, l[0], at + l[0], l[1]};
    if (l[1] == REMOVE) h[i].value = NULL, h[i].value_length = 0;
    at += h[i].name_length + h[i].value_length;
  }
}
// WITH_HEADERS runs what follows with the unpacked headers h, n of them.
#define WITH_HEADERS(packed, ...) \
  do { \
    dm_header few_[FEW_HEADERS]; \
    size_t n = unpack_count(packed); \
    dm_header *h = list(few_, FEW_HEADERS, n, sizeof *h); \
    unpack(packed, h, n); \
    __VA_ARGS__; \
    list_free(few_, h); \
  } while (0)

// is_already reports whether a change would have no effect on the stream's headers: comparing them all costs less than one change.
static bool is_already(const dm_header *change, const dm_header *now, size_t n) {
  size_t found = 0;
  bool same = true;
  for (size_t i = 0; i < n; i++) {
    if (now[i].name_length != change->name_length || memcmp(now[i].name, change->name, change->name_length) != 0) continue;
    found++;
    same = same && change->value != NULL && now[i].value_length == change->value_length && memcmp(now[i].value, change->value, change->value_length) == 0;
  }
  return change->value == NULL ? found == 0 : found == 1 && same;
}

// sets_name reports whether one of n changes is to a header of the same name.
static bool sets_name(const dm_header *change, const dm_header *h, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (h[i].name_length == change->name_length && memcmp(h[i].name, change->name, change->name_length) == 0) return true;
  return false;
}

static void set(void *f, int type, dm_buf packed) {
  dm_header few[FEW_HEADERS];
  size_t had = CB(http_get_headers_size)(f, type);
  dm_header *now = list(few, FEW_HEADERS, had, sizeof *now);
  if (had) CB(http_get_headers)(f, type, now);
  WITH_HEADERS(packed, {
    size_t left = 0;
    for (size_t i = 0; i < n; i++)  // before any change, which invalidates the pointers in now
      if (!is_already(&h[i], now, had) || sets_name(&h[i], h, left)) h[left++] = h[i];
    for (size_t i = 0; i < left; i++) CB(http_set_header)(f, type, (dm_buf){h[i].name, h[i].name_length}, (dm_buf){h[i].value, h[i].value_length});
  });
  list_free(few, now);
}
static void content_length(void *f, int type, size_t n) {
  char b[24];
  snprintf(b, sizeof b, "%zu", n);
  CB(http_set_header)(f, type, text("content-length"), text(b));
}
static bool sets_length(dm_buf packed) {
  const dm_header length = {"content-length", 14, NULL, 0};
  bool found;
  WITH_HEADERS(packed, found = sets_name(&length, h, n));
  return found;
}
// replace replaces the received and held body. Within the hook of a body it replaces that one.
static void replace(void *f, int received, dm_buf data, int at) {
  CB(http_drain_body)(f, received + 1, SIZE_MAX);
  if (at == received) CB(http_drain_body)(f, received, SIZE_MAX);
  if (!data.length) return;
  if (at != received) CB(http_set_buffer_limit)(f, data.length + 1);
  CB(http_append_body)(f, at == received ? received : received + 1, data);
}

void dm_log(int level, dm_buf message) { if (CB(log)) CB(log)(level, message); }

void dm_forward(dm_stream *s, dm_buf headers, dm_buf data, dm_buf order, dm_buf exchange, int at) {
  void *f = s->filter;
  set(f, REQUEST_HEADERS, headers);
  if (!sets_length(headers)) content_length(f, REQUEST_HEADERS, data.length);
  CB(http_set_dynamic_metadata_struct)(f, text("bardo.order"), order);
  CB(http_set_dynamic_metadata_string)(f, text("bardo"), text("exchange"), exchange);
  replace(f, RECEIVED_REQUEST, data, at);
  CB(http_clear_route_cache)(f);
  if (at != RECEIVED_REQUEST) CB(http_filter_continue_decoding)(f);
}
void dm_answer(dm_stream *s, dm_buf headers, dm_buf data, int at) {
  void *f = s->filter;
  set(f, RESPONSE_HEADERS, headers);
  replace(f, RECEIVED_RESPONSE, data, at);
  if (at != RECEIVED_RESPONSE) CB(http_filter_continue_encoding)(f);
}
void dm_reply(dm_stream *s, uint32_t status, dm_buf headers, dm_buf data, dm_buf details) {
  s->local = 1;
  WITH_HEADERS(headers, CB(http_send_response)(s->filter, status, h, n, data, details));
}
void dm_head(dm_stream *s, dm_buf headers) {
  s->local = 1;
  WITH_HEADERS(headers, CB(http_send_response_headers)(s->filter, h, n, false));
}
void dm_data(dm_stream *s, dm_buf data, bool end) { CB(http_send_response_data)(s->filter, data, end); }
void dm_trailers(dm_stream *s, dm_buf headers) { WITH_HEADERS(headers, CB(http_send_response_trailers)(s->filter, h, n)); }
int dm_call(dm_stream *s, uint64_t *id, dm_buf cluster, dm_buf headers, dm_buf data) {
  int r;
  WITH_HEADERS(headers, r = CB(http_filter_start_http_stream)(s->filter, id, cluster, h, n, data, true, 0));
  return r;
}
void dm_reset_call(dm_stream *s, uint64_t id) { CB(http_filter_reset_http_stream)(s->filter, id); }
void dm_reset(dm_stream *s) { CB(http_filter_reset_stream)(s->filter, 0, text("bardo")); }
void dm_take(dm_stream *s) { body(s, RECEIVED_REQUEST, false); }
void dm_drain(dm_stream *s, int received) {
  CB(http_drain_body)(s->filter, received + 1, SIZE_MAX);
  CB(http_drain_body)(s->filter, received, SIZE_MAX);
}
void dm_attempt(dm_stream *s, dm_buf headers, size_t n) {
  set(s->filter, REQUEST_HEADERS, headers);
  content_length(s->filter, REQUEST_HEADERS, n);
}
void dm_attempt_body(dm_stream *s, dm_buf data) {
  CB(http_drain_body)(s->filter, RECEIVED_REQUEST, SIZE_MAX);
  if (data.length) CB(http_append_body)(s->filter, RECEIVED_REQUEST, data);
}
void dm_note(dm_stream *s, dm_buf key, dm_buf value) { CB(http_set_dynamic_metadata_string)(s->filter, text("bardo"), key, value); }
void dm_status(dm_stream *s, dm_buf status) { CB(http_set_header)(s->filter, RESPONSE_HEADERS, text(":status"), status); }
enum { DYNAMIC_METADATA = 0 };
dm_buf dm_noted(dm_stream *s, dm_buf key) {
  dm_buf b = {0};
  CB(http_get_metadata_string)(s->filter, DYNAMIC_METADATA, text("bardo"), key, &b);
  return b;
}
dm_buf dm_cluster(dm_stream *s) {
  dm_buf b = {0};
  CB(http_get_cluster_name)(s->filter, &b);
  return b;
}
void *dm_scheduler(dm_stream *s) { return CB(http_filter_scheduler_new)(s->filter); }
void dm_commit(void *scheduler, uint64_t event) { CB(http_filter_scheduler_commit)(scheduler, event); }
void dm_unschedule(void *scheduler) { CB(http_filter_scheduler_delete)(scheduler); }
