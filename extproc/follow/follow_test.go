package follow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
)

// sink counts the parts of a stream.
type sink struct {
	stream.Client
	parts int
	ended bool
}

func (s *sink) StreamHead(int, header.List) error { return nil }

func (s *sink) StreamBody(_ []byte, end bool) error {
	s.parts, s.ended = s.parts+1, end
	return nil
}

// ticks is a stream with an event per second.
type ticks struct{ closed bool }

func (t *ticks) Next(_ context.Context, within time.Duration) ([]byte, error) {
	<-time.After(within)
	return []byte("event"), nil
}

func (t *ticks) Close() { t.closed = true }

// refusing refuses every credential after a number of them.
type refusing struct {
	left int
	with error
}

func (r *refusing) Verify(context.Context, auth.Request) (policy.Principal, bool, error) {
	if r.left--; r.left >= 0 {
		return policy.Principal{}, true, nil
	}
	return policy.Principal{}, false, r.with
}

// TestAStreamEndsOnceItsReaderHasNoAccess: within about a second of the refusal, but not because the credential cannot be checked; at the latest after
// the time of a stream, or when the gateway drains.
func TestAStreamEndsOnceItsReaderHasNoAccess(t *testing.T) {
	for _, row := range []struct {
		about  string
		with   error
		drains bool
		want   time.Duration
	}{
		{"revoked", fault.Newf(fault.InvalidAPIKey, "revoked"), false, 4 * time.Second},
		{"not for this address", fault.Newf(fault.KeyRestricted, "elsewhere"), false, 4 * time.Second},
		{"the store is down", errors.New("down"), false, 15 * time.Minute},
		{"drains", nil, true, 0},
	} {
		t.Run(row.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &Reader{View: &request.View{Config: &runtime.Config{}}, Verifier: &refusing{3, row.with}}
				r.Principal.Account = "a"
				began, s, f := time.Now(), &sink{}, &ticks{}
				if err := r.Send(t.Context(), s, stream.Reply{}, f, func() bool { return row.drains }); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != row.want || !s.ended || !f.closed {
					t.Errorf("ended after %s, %+v, %+v", took, s, f)
				}
			})
		})
	}
}
