package snapshot

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"bardo.money/gateway/internal/fault"
)

// localReply is what clients read instead of Envoy's own words for a status.
type localReply struct {
	from, to      uint32 // the statuses that Envoy would answer with
	when          string // CEL over the answer; "" means envoysOwn
	kind          fault.Kind
	status        uint32 // the status to answer with; 0 keeps Envoy's
	openAI        string // error.type in OpenAI's form
	anthropic     string // error.type in Anthropic's form
	gemini        string // error.status in Google's form
	message       string
	retryAfterSec int
}

// localReplies are tried in order. What the sidecar answered itself is not among them. Everything of Envoy's own at or
// above 500 means that the gateway, not a provider, is in trouble.
var localReplies = []localReply{
	{
		from: 500, to: 599, when: truncatedAnswer, kind: fault.Upstream, status: 502, openAI: "api_error", anthropic: "api_error", gemini: "UNAVAILABLE",
		message: "the provider broke off its answer",
	},
	{
		from: 404, to: 404, kind: fault.NotFound, openAI: "not_found_error", anthropic: "not_found_error", gemini: "NOT_FOUND",
		message: "there is nothing at this path",
	},
	{
		from: 408, to: 408, kind: fault.RequestTimeout, openAI: "timeout_error", anthropic: "timeout_error", gemini: "DEADLINE_EXCEEDED",
		message: "the request did not arrive in time",
	},
	{
		from: 413, to: 413, kind: fault.TooLarge, openAI: "invalid_request_error", anthropic: "request_too_large", gemini: "INVALID_ARGUMENT",
		message: "the request is larger than this gateway accepts",
	},
	{
		from: 429, to: 429, kind: fault.Overloaded, status: 503, openAI: "overloaded_error", anthropic: "overloaded_error", gemini: "UNAVAILABLE",
		message: "the gateway is at its limit; try again shortly", retryAfterSec: 1,
	},
	{
		from: 400, to: 499, kind: fault.InvalidRequest, openAI: "invalid_request_error", anthropic: "invalid_request_error", gemini: "INVALID_ARGUMENT",
		message: "the request is not valid HTTP, or its headers are too large",
	},
	{
		from: 500, to: 599, kind: fault.Unavailable, status: 503, openAI: "overloaded_error", anthropic: "overloaded_error", gemini: "UNAVAILABLE",
		message: "the gateway is not able to answer right now; try again shortly", retryAfterSec: 1,
	},
}

// anthropicPath matches the requests whose clients read errors in Anthropic's form.
const anthropicPath = `^/*(v1/+)*messages([/?].*)?$`

// geminiPath matches those whose clients read errors in Google's form.
const geminiPath = `^/*(v1/+|v1beta/+)*(v1beta([/?].*)?|models/.*:(generateContent|streamGenerateContent|countTokens)([?].*)?)$`

// envoysOwn holds for answers that Envoy made up, and not for those that the sidecar gave through it.
const envoysOwn = `!response.code_details.startsWith("bardo")`

// truncatedAnswer holds for a provider that died between the head of its answer and the first byte that the client saw of it. The sidecar
// holds that head, and Envoy tells it no more than that the stream is over.
const truncatedAnswer = `response.code_details.startsWith("upstream_reset_after_response_started")`

func (b *builder) localReplies() *hcmv3.LocalReplyConfig {
	out := &hcmv3.LocalReplyConfig{}
	for _, r := range localReplies {
		status := []*accesslogv3.AccessLogFilter{
			statusIs(accesslogv3.ComparisonFilter_GE, r.from), statusIs(accesslogv3.ComparisonFilter_LE, r.to), b.cel(cmp.Or(r.when, envoysOwn)),
		}
		if len(b.CORSOrigins) > 0 {
			from := headerMatches("origin", originsPattern(b.CORSOrigins))
			out.Mappers = append(out.Mappers, readable(r.mappers(append(slices.Clip(status), from)))...)
		}
		out.Mappers = append(out.Mappers, r.mappers(status)...)
	}
	return out
}

// mappers write a reply in the three forms.
func (r localReply) mappers(status []*accesslogv3.AccessLogFilter) []*hcmv3.ResponseMapper {
	return []*hcmv3.ResponseMapper{
		r.mapper(all(append(slices.Clip(status), headerMatches(":path", anthropicPath))...), r.anthropicBody()),
		r.mapper(all(append(slices.Clip(status), headerMatches(":path", geminiPath))...), r.geminiBody()),
		r.mapper(all(status...), r.openAIBody()),
	}
}

// originsPattern matches the origins of pages that may read what Envoy answers by itself.
func originsPattern(origins []string) string {
	quoted := make([]string, len(origins))
	for i, o := range origins {
		if quoted[i] = regexp.QuoteMeta(o); o == "*" {
			quoted[i] = ".+"
		}
	}
	return "(?i)^(" + strings.Join(quoted, "|") + ")$"
}

// readable lets the page that a request comes from read the answer.
func readable(mappers []*hcmv3.ResponseMapper) []*hcmv3.ResponseMapper {
	for _, m := range mappers {
		m.HeadersToAdd = append(m.HeadersToAdd,
			&corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: "access-control-allow-origin", Value: "%REQ(origin)%"}, AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT},
			&corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: "vary", Value: "Origin"}, AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT},
		)
	}
	return mappers
}

func (r localReply) openAIBody() string {
	return `{"error":{"message":` + strconv.Quote(r.message) + `,"type":"` + r.openAI + `","code":"` + string(r.kind) + `","param":null}}`
}

func (r localReply) anthropicBody() string {
	return `{"type":"error","error":{"type":"` + r.anthropic + `","message":` + strconv.Quote(r.message) + `,"code":"` + string(r.kind) + `"}}`
}

func (r localReply) geminiBody() string {
	return `{"error":{"code":%RESPONSE_CODE%,"message":` + strconv.Quote(r.message) + `,"status":"` + r.gemini + `",` +
		`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + string(r.kind) + `","domain":"bardo.money"}]}}`
}

func (r localReply) mapper(when *accesslogv3.AccessLogFilter, body string) *hcmv3.ResponseMapper {
	m := &hcmv3.ResponseMapper{
		Filter: when,
		BodyFormatOverride: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: body},
			}},
			ContentType: "application/json",
		},
	}
	if r.status != 0 {
		m.StatusCode = wrapperspb.UInt32(r.status)
	}
	if r.retryAfterSec != 0 {
		m.HeadersToAdd = append(m.HeadersToAdd, &corev3.HeaderValueOption{
			AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
			Header:       &corev3.HeaderValue{Key: "retry-after", Value: strconv.Itoa(r.retryAfterSec)},
		})
	}
	return m
}

func all(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
		AndFilter: &accesslogv3.AndFilter{Filters: filters},
	}}
}

func statusIs(op accesslogv3.ComparisonFilter_Op, status uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: op, Value: &corev3.RuntimeUInt32{DefaultValue: status, RuntimeKey: "bardo.local_reply"},
		}},
	}}
}

func headerMatches(name, regex string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{
			Name: name,
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}},
			}},
		}},
	}}
}

func (b *builder) cel(expression string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name: "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: b.Any(&celv3.ExpressionFilter{
				Expression: expression,
			})},
		},
	}}
}
