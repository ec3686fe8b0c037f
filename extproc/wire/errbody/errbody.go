// Package errbody parses a provider's errors: an error answer of any format, or an error inside a stream. It knows the formats of OpenAI,
// Anthropic, Google and compatible servers; it does not decide what a client receives.
package errbody

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
)

// MaxBody is the number of bytes of an error answer that are kept for Parse.
const MaxBody = 64 << 10

// maxMessage is the maximum length of a message in characters.
const maxMessage = 500

// maxGenerated is the maximum length of a failed generation in bytes: clients parse it, so a part of it is of no use.
const maxGenerated = 32 << 10

// Parse reads the body of an answer whose status is not 2xx. It never fails: a body that is not JSON becomes the message, and one with an
// unknown content encoding an empty message.
func Parse(status int, h header.List, body []byte) *chat.ProviderError {
	e := &chat.ProviderError{}
	body = uncompressed(h, body)
	if v, err := jsonx.Parse(body); err == nil {
		fromJSON(e, v)
	} else {
		e.Message = plain(body)
	}
	e.Status = status
	noteOverflow(e)
	if seconds := retryAfter(h); seconds > 0 {
		e.RetryAfter = seconds
	}
	return e
}

// InStream reads an error inside an answer that started with 200. Its Status is the one that its code or type implies; 500 if both are
// unknown.
func InStream(v jsonx.Value) *chat.ProviderError {
	e := &chat.ProviderError{}
	fromJSON(e, v)
	noteOverflow(e)
	if e.Status == 0 {
		e.Status = implied(e)
	}
	return e
}

// fromJSON finds the object that describes the error, and reads it. It sets Status if the code is an HTTP status.
func fromJSON(e *chat.ProviderError, v jsonx.Value) {
	for _, first := range v.Each { // Google wraps the errors of a stream in an array
		v = first
		break
	}
	if v.Kind() == jsonx.String {
		e.Message = text(v)
		return
	}
	inner := firstOf(v, "error", "errors", "detail")
	for _, first := range inner.Each {
		inner = first
		break
	}
	switch inner.Kind() {
	case jsonx.Object:
		describe(e, inner)
	case jsonx.String:
		describe(e, v)
		e.Message = text(inner)
	default:
		describe(e, v)
	}
}

func describe(e *chat.ProviderError, v jsonx.Value) {
	e.Type = text(firstOf(v, "type", "status"))
	e.Message = text(firstOf(v, "message", "msg", "error_description", "title"))
	e.Param = text(v.Get("param"))
	if s, ok := v.Get("failed_generation").Str(); ok && len(s) <= maxGenerated {
		e.Generated = s
	}
	code := v.Get("code")
	e.Code = text(code)
	if n, ok := code.Int(); ok {
		e.Code = string(code.Raw)
		if n >= 400 && n <= 599 {
			e.Status = int(n)
		}
	}
	details := v.Get("details")
	if e.Code == "" { // Anthropic's code
		e.Code = text(details.Get("error_code"))
	}
	for _, detail := range details.Each {
		if delay, ok := detail.Get("retryDelay").Str(); ok {
			e.RetryAfter = seconds(strings.TrimSuffix(delay, "s"))
		}
		if reason := text(detail.Get("reason")); reason != "" && strings.Trim(e.Code, "0123456789") == "" { // Google's code, which is the status otherwise
			e.Code = reason
		}
	}
}

// firstOf returns the first of an object's members that is present and not null.
func firstOf(v jsonx.Value, keys ...string) jsonx.Value {
	for _, k := range keys {
		if m := v.Get(k); !m.IsNull() {
			return m
		}
	}
	return jsonx.Value{}
}

// text returns a string value, truncated.
func text(v jsonx.Value) string {
	s, _ := v.Str()
	return cut(s)
}

// plain returns a message for a body that is not JSON: the title of an HTML page, else the text.
func plain(body []byte) string {
	b := bytes.TrimSpace(body)
	if len(b) == 0 || b[0] != '<' {
		return cut(strings.TrimSpace(strings.ToValidUTF8(string(b[:min(len(b), maxMessage*utf8.UTFMax)]), "")))
	}
	lower := bytes.ToLower(b[:min(len(b), MaxBody)])
	if len(lower) != min(len(b), MaxBody) {
		return "" // lower-casing changed the length, so the page is not UTF-8
	}
	from := bytes.Index(lower, []byte("<title>"))
	if from < 0 {
		return ""
	}
	from += len("<title>")
	to := bytes.Index(lower[from:], []byte("</title>"))
	if to < 0 {
		return ""
	}
	return cut(strings.ToValidUTF8(strings.TrimSpace(string(b[from:from+to])), ""))
}

// cut truncates s to maxMessage characters.
func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	n := 0
	for i := range s {
		if n == maxMessage {
			return s[:i]
		}
		n++
	}
	return s
}
