package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWhatMayBeAskedTwice: a command is run again after a lost answer only if repeating it has no effect.
func TestWhatMayBeAskedTwice(t *testing.T) {
	answer := func(body io.Reader) transport {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}, nil
		}
	}
	cut := errors.New("cut")
	none := transport(func(*http.Request) (*http.Response, error) { return nil, cut })
	for _, row := range []struct {
		name, method, path string
		next               transport
		lost, repeatable   bool
	}{
		{"an answer", http.MethodPost, "/keys", answer(strings.NewReader("{}")), false, false},
		{"a read without an answer", http.MethodGet, "/keys", none, true, true},
		{"a deposit without an answer", http.MethodPost, "/keys/k/deposits", none, true, true},
		{"half an answer to a deposit", http.MethodPost, "/keys/k/deposits", answer(iotest.ErrReader(cut)), true, true},
		{"a creation without an answer", http.MethodPost, "/keys", none, true, false},
		{"half an answer to a rotation", http.MethodPost, "/keys/k/rotate", answer(iotest.ErrReader(cut)), true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), row.method, "http://admin"+row.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			h := &answerRecorder{next: row.next}
			resp, err := h.RoundTrip(req)
			if h.lost != row.lost || h.repeatable != row.repeatable || (err != nil) != row.lost {
				t.Errorf("lost %v, repeatable %v, %v", h.lost, h.repeatable, err)
			}
			if err == nil {
				if b, err := io.ReadAll(resp.Body); string(b) != "{}" || err != nil {
					t.Errorf("the answer is %q, %v", b, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
