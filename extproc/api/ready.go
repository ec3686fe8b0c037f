package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/policy/ledger"
)

// ReadyDetail is one line of /readyz?verbose. A failed one does not always make the gateway unready.
type ReadyDetail struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Ready answers /readyz. With ?verbose it lists the checks. Their details may name files and addresses, so only callers on this machine get them.
func (s *Server) Ready(_ context.Context, c *Caller) (stream.Reply, error) {
	answer := struct {
		Status string        `json:"status"`
		Reason string        `json:"reason,omitempty"`
		Checks []ReadyDetail `json:"checks,omitempty"`
	}{Status: "ready"}
	status := http.StatusOK
	if answer.Reason = Unready(s.Ledger); answer.Reason != "" {
		answer.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	if s.Draining() {
		answer.Status, status = "draining", http.StatusServiceUnavailable
	}
	if s.Checks != nil && isVerbose(c.Head.Query) {
		answer.Checks = s.Checks()
		for i := range answer.Checks {
			if !c.Head.FromThisMachine() {
				answer.Checks[i].Detail = ""
			}
		}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return stream.Reply{}, err
	}
	r := c.Head.JSON(body)
	r.Status = status
	return r, nil
}

// Unready returns why a gateway with a ledger cannot serve paid requests, in a text for any caller, without file names; "" if it can.
func Unready(books *ledger.Ledger) string {
	if err, ok := errors.AsType[*ledger.UnwritableError](books.Writable()); ok {
		return "the ledger cannot be written: " + err.Reason
	}
	return ""
}

func isVerbose(query string) bool {
	for field := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(field, "="); name == "verbose" {
			return true
		}
	}
	return false
}
