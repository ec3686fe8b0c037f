package errbody_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// parseRows are error answers, and the parsed errors.
var parseRows = []struct {
	name   string
	status int
	header header.List
	body   string
	want   chat.ProviderError
}{
	{
		name: "OpenAI", status: 400,
		body: `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		want: chat.ProviderError{Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Message: "too long", Param: "messages"},
	},
	{
		name: "Groq", status: 400,
		body: `{"error":{"message":"wrong call","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"{\"k\":1}"}}`,
		want: chat.ProviderError{Status: 400, Type: "invalid_request_error", Code: "tool_use_failed", Message: "wrong call", Generated: `{"k":1}`},
	},
	{
		name: "Groq, long", status: 400,
		body: `{"error":{"message":"wrong call","failed_generation":"` + strings.Repeat("x", 40<<10) + `"}}`,
		want: chat.ProviderError{Status: 400, Message: "wrong call"},
	},
	{
		name: "OpenAI with nulls", status: 429, header: header.List{{Name: "retry-after", Value: "7"}},
		body: `{"error":{"message":"slow down","type":"requests","param":null,"code":null}}`,
		want: chat.ProviderError{Status: 429, Type: "requests", Message: "slow down", RetryAfter: 7},
	},
	{
		name: "Anthropic", status: 529, header: header.List{{Name: "retry-after", Value: "0.2"}},
		body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`,
		want: chat.ProviderError{Status: 529, Type: "overloaded_error", Message: "Overloaded", RetryAfter: 1},
	},
	{
		name: "Anthropic with a code", status: 404,
		body: `{"type":"error","error":{"type":"not_found_error","message":"gone","details":{"error_code":"thread_not_found"}}}`,
		want: chat.ProviderError{Status: 404, Type: "not_found_error", Code: "thread_not_found", Message: "gone"},
	},
	{
		name: "Google", status: 429,
		body: `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}`,
		want: chat.ProviderError{Status: 429, Type: "RESOURCE_EXHAUSTED", Code: "429", Message: "quota", RetryAfter: 35},
	},
	{
		name: "Anthropic, too long", status: 400,
		body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`,
		want: chat.ProviderError{Status: 400, Type: "invalid_request_error", Code: errbody.Overflow, Message: "prompt is too long: 208310 tokens > 200000 maximum"},
	},
	{
		name: "Google, too long", status: 400,
		body: `{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}`,
		want: chat.ProviderError{
			Status: 400, Type: "INVALID_ARGUMENT", Code: errbody.Overflow, Message: "The input token count (9) exceeds the maximum number of tokens allowed (8).",
		},
	},
	{
		name: "vLLM, too long", status: 400,
		body: `{"object":"error","message":"This model's maximum context length is 8 tokens.","type":"BadRequestError","param":null,"code":400}`,
		want: chat.ProviderError{Status: 400, Type: "BadRequestError", Code: errbody.Overflow, Message: "This model's maximum context length is 8 tokens."},
	},
	{
		name: "a code of its own", status: 400, body: `{"error":{"message":"prompt is too long","code":"string_above_max_length"}}`,
		want: chat.ProviderError{Status: 400, Code: "string_above_max_length", Message: "prompt is too long"},
	},
	{
		name: "Google's array", status: 400, body: `[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`,
		want: chat.ProviderError{Status: 400, Type: "INVALID_ARGUMENT", Code: "400", Message: "bad"},
	},
	{
		name: "vLLM", status: 404, body: `{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}`,
		want: chat.ProviderError{Status: 404, Type: "NotFoundError", Code: "404", Message: "no such model"},
	},
	{
		name: "FastAPI", status: 422, body: `{"detail":[{"loc":["body"],"msg":"field required","type":"missing"}]}`,
		want: chat.ProviderError{Status: 422, Type: "missing", Message: "field required"},
	},
	{
		name: "an error that is a string", status: 500, body: `{"error":"boom","code":"E1"}`,
		want: chat.ProviderError{Status: 500, Code: "E1", Message: "boom"},
	},
	{name: "a detail that is a string", status: 404, body: `{"detail":"Not Found"}`, want: chat.ProviderError{Status: 404, Message: "Not Found"}},
	{name: "a JSON string", status: 500, body: `"boom"`, want: chat.ProviderError{Status: 500, Message: "boom"}},
	{name: "text", status: 503, body: " upstream connect error\n", want: chat.ProviderError{Status: 503, Message: "upstream connect error"}},
	{
		name: "HTML", status: 502, body: "<!DOCTYPE html><HTML><head><Title> 502 Bad Gateway </title></head><body>x</body></html>",
		want: chat.ProviderError{Status: 502, Message: "502 Bad Gateway"},
	},
	{name: "HTML without a title", status: 502, body: "<html>", want: chat.ProviderError{Status: 502}},
	{name: "nothing", status: 401, want: chat.ProviderError{Status: 401}},
	{name: "null", status: 500, body: "null", want: chat.ProviderError{Status: 500}},
	{
		name: "milliseconds win", status: 429,
		header: header.List{{Name: "retry-after", Value: "60"}, {Name: "retry-after-ms", Value: "1500"}},
		want:   chat.ProviderError{Status: 429, RetryAfter: 2},
	},
	{
		name: "a date by the provider's clock", status: 503,
		header: header.List{{Name: "retry-after", Value: "Wed, 21 Oct 2015 07:28:30 GMT"}, {Name: "date", Value: "Wed, 21 Oct 2015 07:28:00 GMT"}},
		want:   chat.ProviderError{Status: 503, RetryAfter: 30},
	},
	{
		name: "a date in the past", status: 503, header: header.List{{Name: "retry-after", Value: "Wed, 21 Oct 2015 07:28:30 GMT"}},
		want: chat.ProviderError{Status: 503},
	},
	{
		name: "an absurd wait is bounded", status: 429, header: header.List{{Name: "retry-after", Value: "1e300"}},
		want: chat.ProviderError{Status: 429, RetryAfter: 86400},
	},
	{name: "not a number", status: 429, header: header.List{{Name: "retry-after", Value: "NaN"}}, want: chat.ProviderError{Status: 429}},
	{
		name: "a long message is cut by characters", status: 500, body: `{"error":{"message":"` + strings.Repeat("é", 600) + `"}}`,
		want: chat.ProviderError{Status: 500, Message: strings.Repeat("é", 500)},
	},
}

func TestParse(t *testing.T) {
	for _, tt := range parseRows {
		t.Run(tt.name, func(t *testing.T) {
			if got := errbody.Parse(tt.status, tt.header, []byte(tt.body)); !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("got %+v\nwant %+v", *got, tt.want)
			}
		})
	}
}

func TestAnErrorInsideAStreamImpliesItsStatus(t *testing.T) {
	tests := map[string]int{
		`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`:      529,
		`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`:      429,
		`{"type":"error","error":{"type":"request_too_large","message":"x"}}`:     413,
		`{"type":"error","error":{"type":"billing_error","message":"x"}}`:         402,
		`{"error":{"type":"invalid_request_error","code":"rate_limit_exceeded"}}`: 429,
		`{"error":{"code":503,"message":"x"}}`:                                    503,
		`{"error":{"code":"502","message":"x"}}`:                                  500,
		`{"error":{"message":"who knows"}}`:                                       500,
	}
	for body, want := range tests {
		v, err := jsonx.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := errbody.InStream(v).Status; got != want {
			t.Errorf("%s: got %d, want %d", body, got, want)
		}
	}
}

func FuzzAnyBodyIsReadAndBounded(f *testing.F) {
	f.Add(`{"error":{"message":"x","code":1,"details":[{"retryDelay":"3s"}]}}`, "5")
	f.Add("<html><title>a</title>\xff", "Wed, 21 Oct 2015 07:28:30 GMT")
	f.Fuzz(func(t *testing.T, body, after string) {
		e := errbody.Parse(500, header.List{{Name: "retry-after", Value: after}}, []byte(body))
		if !utf8.ValidString(e.Message) || utf8.RuneCountInString(e.Message) > 500 || e.RetryAfter < 0 || e.Status != 500 {
			t.Fatalf("%+v", e)
		}
	})
}
