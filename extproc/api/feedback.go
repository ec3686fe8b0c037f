package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// MaxFeedbackBody is the maximum size of a feedback body, in bytes.
const MaxFeedbackBody = 16 << 10

// maxReason is the maximum length of a reason, in bytes.
const maxReason = 2000

// feedbackForm is the form of a feedback body: no member may occur twice.
var feedbackForm = jsonx.Unique

// Rated is called with stored feedback, and the feedback that it replaces, if any. It must not block.
type Rated func(f, before *ledger.Feedback)

// feedbackReply is the answer to POST /v1/requests/{id}/feedback.
type feedbackReply struct {
	Object    string          `json:"object"`
	RequestID string          `json:"request_id"`
	Score     json.RawMessage `json:"score"`
	Reason    string          `json:"reason,omitempty"`
}

// Feedback stores a caller's feedback on one of its answers: {"score": 0..1, "reason": "…"}. The latest replaces earlier ones; repeating it changes
// nothing.
func (s *Server) Feedback(ctx context.Context, c *Caller) (stream.Reply, error) {
	if err := auth.MayGenerate(c.Principal); err != nil { // a read-only key
		return stream.Reply{}, err
	}
	f, err := parseFeedback(c.Body)
	if err != nil {
		return stream.Reply{}, err
	}
	f.RequestID, f.Account = strings.TrimSuffix(c.Head.Arg("/v1/requests/"), "/feedback"), c.Principal.Account
	r, err := s.record(ctx, c, f.RequestID)
	if err != nil {
		return stream.Reply{}, err
	}
	stored, err := jsonx.Scan(r.Record)
	if err != nil || r.Provider == "" {
		return stream.Reply{}, fault.Newf(fault.InvalidRequest, "request %q has no answer that could be rated", fault.Clip(f.RequestID))
	}
	f.Task, _ = stored.Get("task").Str()
	f.Regime, _ = stored.Get("regime").Str()
	before, replaced, err := s.Ledger.Rate(ctx, f)
	if err != nil {
		return stream.Reply{}, err
	}
	if s.Rated != nil {
		was := &before
		if !replaced {
			was = nil
		}
		s.Rated(&f, was)
	}
	body, err := json.Marshal(feedbackReply{"request.feedback", f.RequestID, scoreJSON(f.Score), f.Reason})
	return stream.Reply{Status: http.StatusOK, Header: c.Head.JSON(nil).Header, Body: body}, err
}

// parseFeedback parses a feedback body. The error is a fault that names the member.
func parseFeedback(body []byte) (f ledger.Feedback, err error) {
	if len(body) > MaxFeedbackBody {
		return f, fault.Newf(fault.TooLarge, "feedback is longer than %d bytes", MaxFeedbackBody)
	}
	root, err := feedbackForm.Parse(body)
	if se, ok := errors.AsType[*jsonx.SyntaxError](err); ok {
		return f, fault.New(fault.InvalidRequest, se.Error(), err)
	}
	if err != nil || root.Kind() != jsonx.Object {
		return f, fault.Newf(fault.InvalidRequest, `expected a JSON object: {"score": 0..1, "reason": "…"}`)
	}
	scored := false
	for key, m := range root.Members {
		switch string(key) {
		case "score":
			if f.Score, scored = parseScore(m.Raw); !scored {
				return f, memberFault("score", "score: expected a number from 0 to 1")
			}
		case "reason":
			s, ok := m.Str()
			if !ok && !m.IsNull() || len(s) > maxReason || !utf8.ValidString(s) {
				return f, memberFault("reason", "reason: expected a text of at most "+strconv.Itoa(maxReason)+" bytes")
			}
			f.Reason = s
		default:
			return f, memberFault(fault.Clip(string(key)), fault.Clip(string(key))+": expected score or reason")
		}
	}
	if !scored {
		return f, memberFault("score", "score: expected a number from 0 to 1")
	}
	return f, nil
}

func memberFault(name, message string) *fault.Fault {
	f := fault.Newf(fault.InvalidRequest, "%s", message)
	f.Param = name
	return f
}

// parseScore parses a number from 0 to 1 as millionths; further decimals are cut off.
func parseScore(raw []byte) (int64, bool) {
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(x >= 0 && x <= 1) { // also rejects NaN
		return 0, false
	}
	return min(int64(x*ledger.PerfectScore+0.5), ledger.PerfectScore), true
}

// scoreJSON returns a score as a JSON number.
func scoreJSON(millionths int64) json.RawMessage {
	b := strconv.AppendFloat(nil, float64(millionths)/ledger.PerfectScore, 'f', 6, 64)
	return bytes.TrimSuffix(bytes.TrimRight(b, "0"), []byte{'.'})
}

// withFeedback adds the caller's feedback to a record.
func withFeedback(record []byte, f *ledger.Feedback) []byte {
	doc, err := jsonx.Scan(record)
	if err != nil {
		return record
	}
	v := append([]byte(`{"score":`), scoreJSON(f.Score)...)
	if f.Reason != "" {
		v = jsonx.AppendString(append(v, `,"reason":`...), f.Reason)
	}
	var e jsonx.Edits
	e.Set(&doc, "feedback", append(v, '}'))
	return e.AppendTo(nil, &doc)
}
