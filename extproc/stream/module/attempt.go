package module

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// attempt is the filter of one attempt of a forwarded request, on the worker's thread: a retry that Go encodes, or a first attempt whose answer may
// turn out to be a failure.
type attempt struct {
	exchange, cluster string
	number            int
	body              []byte
	holds             bool   // the answer is held until it is complete
	retryAfter        string // retry-after of the answer
}

// newAttempt reads the attempt's request headers.
func newAttempt(f handle, h header.List) *attempt {
	a := &attempt{exchange: f.noted(state.KeyExchange), cluster: f.cluster()}
	a.number, _ = strconv.Atoi(h.Get("x-envoy-attempt-count"))
	a.number = max(a.number, 1)
	return a
}

// write encodes the request of a retry.
func (a *attempt) write(f handle, h header.List) error {
	r, err := writeAttempt(&stream.Attempt{Exchange: a.exchange, Cluster: a.cluster, Number: a.number, Header: h})
	if err != nil {
		return err
	}
	a.body = r.Body
	f.writeAttempt(&r)
	return nil
}

func writeAttempt(a *stream.Attempt) (stream.AttemptRequest, error) {
	process.app.Opened()
	defer process.app.Closed()
	return process.app.Attempt(a)
}

// answered processes the head of the answer. It records a failure, and reports whether to hold the answer because its body may be an error: Envoy can
// retry until the first part of it is passed on.
func (a *attempt) answered(f handle, h header.List, end bool) (hold bool) {
	a.retryAfter = h.Get("retry-after")
	status := h.Get(":status")
	switch {
	case !strings.HasPrefix(status, "2"):
		a.note(f, status)
		return false
	case strings.Contains(h.Get("content-type"), header.EventStream):
		return false
	case end:
		a.whole(f, func(int, int) []byte { return nil })
		return false
	}
	a.holds = true
	return true
}

// whole replaces the status of a complete answer that is an error by the matching error status.
func (a *attempt) whole(f handle, part func(at, n int) []byte) {
	a.holds = false
	if status := judge(part); status != "" {
		f.setStatus(status)
		a.note(f, status)
	}
}

// note records the outcome of this attempt for the request's answer.
func (a *attempt) note(f handle, status string) {
	f.note(state.KeyAttempt+strconv.Itoa(a.number), a.cluster+";"+status+";"+a.retryAfter)
}

// judge returns the status for a complete 2xx answer that is not an answer: empty, a web page, or an error; else "". Some providers send blank lines
// while they work.
func judge(part func(at, n int) []byte) string {
	start := part(0, 64)
	at := 0
	for len(start) > 0 {
		trimmed := bytes.TrimLeft(start, " \t\r\n\v\f")
		at += len(start) - len(trimmed)
		if len(trimmed) > 0 {
			break
		}
		start = part(at, 64)
	}
	start = part(at, 48)
	if len(start) == 0 || start[0] == '<' {
		return "502"
	}
	if !errorShape.Match(start) {
		return ""
	}
	return stated(part(at, 4096))
}

// errorShape matches the start of errors of OpenAI, Anthropic and vLLM. A vertical tab is white space to Lua as well.
var errorShape = regexp.MustCompile(`^\{[\s\v]*("error"[\s\v]*:[\s\v]*[{"]|"type"[\s\v]*:[\s\v]*"error"|"object"[\s\v]*:[\s\v]*"error")`)

// statuses maps an error's code or type to a status. Any other means that the provider failed.
var statuses = map[string]string{
	"invalid_request_error": "400", "context_length_exceeded": "400", "BadRequestError": "400", "INVALID_ARGUMENT": "400",
	"authentication_error": "401", "invalid_api_key": "401", "UNAUTHENTICATED": "401", "billing_error": "402",
	"permission_error": "403", "PERMISSION_DENIED": "403",
	"not_found_error": "404", "model_not_found": "404", "NotFoundError": "404", "NOT_FOUND": "404", "request_too_large": "413",
	"rate_limit_error": "429", "rate_limit_exceeded": "429", "insufficient_quota": "429", "RESOURCE_EXHAUSTED": "429",
	"overloaded": "503", "engine_overloaded": "503", "service_unavailable": "503", "UNAVAILABLE": "503",
	"timeout_error": "504", "timeout": "504", "DEADLINE_EXCEEDED": "504", "overloaded_error": "529",
}

// errorMembers match the members that identify an error, the most specific one first.
var errorMembers = []*regexp.Regexp{
	regexp.MustCompile(`"code"[\s\v]*:[\s\v]*"?(\w+)`), regexp.MustCompile(`"type"[\s\v]*:[\s\v]*"?(\w+)`), regexp.MustCompile(`"status"[\s\v]*:[\s\v]*"?(\w+)`),
}

var errorStatus = regexp.MustCompile(`^[45]\d\d$`)

// stated returns the status that an error should have had.
func stated(text []byte) string {
	for _, member := range errorMembers {
		for _, m := range member.FindAllSubmatch(text, -1) {
			if s, ok := statuses[string(m[1])]; ok {
				return s
			}
			if errorStatus.Match(m[1]) {
				return string(m[1])
			}
		}
	}
	return "502"
}
