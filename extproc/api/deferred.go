package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
)

// Later stores deferred requests. Its errors are deferred.ErrUnknown, deferred.ErrGone, or the store's. Safe for concurrent use.
type Later interface {
	Answer(ctx context.Context, account policy.Account, id string, read bool) (deferred.Status, error)
	Cancel(ctx context.Context, account policy.Account, id string) error
}

// maxRetryAfter is the maximum Retry-After of an answer that is not there yet.
const maxRetryAfter = time.Minute

// Answer is GET /v1/requests/{id}/answer: the answer to a deferred request as its client would have got it, or 202 until it is there.
func (s *Server) Answer(ctx context.Context, c *Caller) (stream.Reply, error) {
	id := strings.TrimSuffix(c.Head.Arg("/v1/requests/"), "/answer")
	read := c.Head.Method != http.MethodHead
	st, err := s.answerOf(ctx, c.Principal.Account, id, read)
	switch {
	case err != nil:
		return stream.Reply{}, err
	case st.Answer != nil && read:
		return *st.Answer, nil
	case st.Answer != nil:
		return stream.Reply{Status: st.Answer.Status, Header: st.Answer.Header}, nil
	}
	status := "deferred"
	if st.Batched {
		status = "batched"
	}
	wait := min(max(time.Until(st.Request.Deadline), time.Second), maxRetryAfter)
	r := c.Head.JSON(DeferredBody(st.Request.Dialect, id, status, st.Request.Deadline))
	r.Status = http.StatusAccepted
	r.Header = append(r.Header, header.Field{Name: "retry-after", Value: strconv.Itoa(int(wait.Seconds()))}, header.Field{Name: "cache-control", Value: "no-store"})
	return r, nil
}

func (s *Server) answerOf(ctx context.Context, account policy.Account, id string, read bool) (deferred.Status, error) {
	if s.Later == nil || account == "" {
		return deferred.Status{}, laterFault(deferred.ErrUnknown, id)
	}
	st, err := s.Later.Answer(ctx, account, id, read)
	return st, laterFault(err, id)
}

// Cancel is DELETE /v1/requests/{id}.
func (s *Server) Cancel(ctx context.Context, c *Caller) (stream.Reply, error) {
	if err := auth.MayGenerate(c.Principal); err != nil {
		return stream.Reply{}, err
	}
	id := c.Head.Arg("/v1/requests/")
	if s.Later == nil || c.Principal.Account == "" {
		return stream.Reply{}, laterFault(deferred.ErrUnknown, id)
	}
	if err := s.Later.Cancel(ctx, c.Principal.Account, id); err != nil {
		return stream.Reply{}, laterFault(err, id)
	}
	return c.Head.JSON(append(jsonx.AppendString([]byte(`{"id":`), id), `,"status":"cancelled"}`...)), nil
}

// laterFault returns the client's fault for an error.
func laterFault(err error, id string) error {
	switch {
	case errors.Is(err, deferred.ErrUnknown):
		return fault.Newf(fault.NotFound, "this key has no deferred request %q", fault.Clip(id))
	case errors.Is(err, deferred.ErrGone):
		return fault.Newf(fault.Gone, "the deferred request %q was cancelled, or its answer was kept long enough and deleted", fault.Clip(id))
	}
	return err
}

// DeferredBody returns the body, in a client's format, that reports a request as deferred.
func DeferredBody(d chat.Dialect, id, status string, expires time.Time) []byte {
	b := jsonx.AppendString([]byte(`{"id":`), id)
	kind := `,"object":"deferred"`
	if d == chat.Anthropic {
		kind = `,"type":"deferred"`
	}
	b = jsonx.AppendString(append(append(b, kind...), `,"status":`...), status)
	b = jsonx.AppendString(append(b, `,"answer_url":`...), "/v1/requests/"+id+"/answer")
	b = jsonx.AppendString(append(b, `,"expires_at":`...), expires.UTC().Format(time.RFC3339))
	return append(b, '}')
}
