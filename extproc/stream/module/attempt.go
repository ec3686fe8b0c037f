package module

// #include "abi.h"
import "C"

import (
	"bytes"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/xds/state"
)

// attempt is the filter of one attempt of a forwarded request, on the worker's thread.
type attempt struct {
	cluster string
	number  int
	written bool // body replaces the request's
	body    []byte
	holds   bool   // the answer waits until it is whole
	retry   string // the answer's retry-after
}

// goAttempt writes the request of a retry. A request that no exchange forwarded passes: the gateway made it itself.
//
//export goAttempt
func goAttempt(c *C.dm_stream, h *C.dm_header, n C.size_t) (r C.int) {
	defer barrier(c, &r)
	a := &attempt{cluster: text(C.dm_cluster(c))}
	exchange := text(C.dm_noted(c, bufOf(state.KeyExchange)))
	retries := string(state.ProviderOf(a.cluster)) != a.cluster
	if exchange == "" && !retries {
		return C.CONTINUE
	}
	all := headers(h, n)
	a.number, _ = strconv.Atoi(all.Get("x-envoy-attempt-count"))
	a.number = max(a.number, 1)
	workerOf(c).add(c, filter{attempt: a})
	if !retries {
		return C.CONTINUE
	}
	req, err := writeAttempt(&stream.Attempt{Exchange: exchange, Cluster: a.cluster, Number: a.number, Header: all})
	if err != nil { // Envoy does not retry then: the client's request ends
		C.dm_reply(c, http.StatusServiceUnavailable, buf(pack(nil, nil)), buf(nil), bufOf("module_error"))
		return C.STOP
	}
	a.written, a.body = true, req.Body
	C.dm_attempt(c, buf(pack(req.Set, req.Remove)), C.size_t(len(req.Body)))
	return C.CONTINUE
}

func writeAttempt(a *stream.Attempt) (stream.AttemptRequest, error) {
	process.app.Opened()
	defer process.app.Closed()
	return process.app.Attempt(a)
}

//export goAttemptBody
func goAttemptBody(c *C.dm_stream, end C.bool) (r C.int) {
	defer barrier(c, &r)
	a := attemptOf(c)
	switch {
	case !a.written:
		return C.CONTINUE
	case !bool(end):
		C.dm_drain(c, C.RECEIVED_REQUEST)
		return C.STOP_NO_BUFFER
	}
	C.dm_attempt_body(c, buf(a.body))
	a.body = nil
	return C.CONTINUE
}

// goAttemptHead notes a failed attempt, and holds an answer that may turn out to be an error: as long as nothing of it has gone on, Envoy can retry.
//
//export goAttemptHead
func goAttemptHead(c *C.dm_stream, h *C.dm_header, n C.size_t, end C.bool) (r C.int) {
	defer barrier(c, &r)
	a, all := attemptOf(c), headers(h, n)
	a.retry = all.Get("retry-after")
	status := all.Get(":status")
	switch {
	case !strings.HasPrefix(status, "2"):
		a.note(c, status)
		return C.CONTINUE
	case strings.Contains(all.Get("content-type"), "event-stream"):
		return C.CONTINUE
	case bool(end):
		a.fail(c, meaning(nil))
		return C.CONTINUE
	}
	a.holds = true
	return C.STOP
}

//export goAttemptHolds
func goAttemptHolds(c *C.dm_stream) C.bool { return C.bool(attemptOf(c).holds) }

// goAttemptAnswer has a whole answer.
//
//export goAttemptAnswer
func goAttemptAnswer(c *C.dm_stream, p *C.dm_buf, n C.size_t) (r C.int) {
	defer barrier(c, &r)
	a := attemptOf(c)
	a.holds = false
	if status := meaning(pieces(p, n)); status != "" {
		a.fail(c, status)
	}
	return C.CONTINUE
}

// note says for the request's answer how this attempt went.
func (a *attempt) note(c *C.dm_stream, status string) {
	C.dm_note(c, bufOf(state.KeyAttempt+strconv.Itoa(a.number)), bufOf(a.cluster+";"+status+";"+a.retry))
}

// fail gives an answer the status that its error should have come with.
func (a *attempt) fail(c *C.dm_stream, status string) {
	C.dm_status(c, bufOf(status))
	a.note(c, status)
}

// meaning is the status of a whole answer that came with 2xx and is none: nothing, a web page, or an error; else "".
func meaning(all []C.dm_buf) string {
	return judge(func(at, n int) []byte { return part(all, at, n) })
}

// part copies n bytes of a body, or what there is, from an offset.
func part(all []C.dm_buf, at, n int) []byte {
	out := make([]byte, 0, n)
	for i := range all {
		p := view(all[i].ptr, all[i].length)
		skip := min(at, len(p))
		p, at = p[skip:], at-skip
		if len(out)+len(p) >= n {
			return append(out, p[:n-len(out)]...)
		}
		out = append(out, p...)
	}
	return out
}

// judge is meaning over a body that is read in parts. Some providers send blank lines while they work.
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

// errorShape is how the errors of OpenAI, Anthropic and vLLM begin.
var errorShape = regexp.MustCompile(`^\{\s*("error"\s*:\s*[{"]|"type"\s*:\s*"error"|"object"\s*:\s*"error")`)

// statuses is what the code or the type of an error means. One that is not here means that the provider failed.
var statuses = map[string]string{
	"invalid_request_error": "400", "context_length_exceeded": "400", "BadRequestError": "400", "INVALID_ARGUMENT": "400",
	"authentication_error": "401", "invalid_api_key": "401", "UNAUTHENTICATED": "401", "billing_error": "402",
	"permission_error": "403", "PERMISSION_DENIED": "403",
	"not_found_error": "404", "model_not_found": "404", "NotFoundError": "404", "NOT_FOUND": "404", "request_too_large": "413",
	"rate_limit_error": "429", "rate_limit_exceeded": "429", "insufficient_quota": "429", "RESOURCE_EXHAUSTED": "429",
	"overloaded": "503", "engine_overloaded": "503", "service_unavailable": "503", "UNAVAILABLE": "503",
	"timeout_error": "504", "timeout": "504", "DEADLINE_EXCEEDED": "504", "overloaded_error": "529",
}

// errorMembers are the members that say what an error is, the most exact one first.
var errorMembers = []*regexp.Regexp{
	regexp.MustCompile(`"code"\s*:\s*"?(\w+)`), regexp.MustCompile(`"type"\s*:\s*"?(\w+)`), regexp.MustCompile(`"status"\s*:\s*"?(\w+)`),
}

var errorStatus = regexp.MustCompile(`^[45]\d\d$`)

// stated is the status that an error should have come with.
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
