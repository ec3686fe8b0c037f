package fault_test

import (
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
)

// TestEveryKindSaysWhetherARetryHelps: SDKs retry 408, 409, 429 and every 5xx within seconds. Of those kinds, only these may succeed then.
func TestEveryKindSaysWhetherARetryHelps(t *testing.T) {
	helps := map[fault.Kind]bool{ //nolint:exhaustive // the others do not
		fault.RequestTimeout: true, fault.RateLimited: true, fault.Internal: true, fault.Upstream: true, fault.Overloaded: true, fault.Unavailable: true, fault.UpstreamTimeout: true,
		fault.GuardrailDown: true,
	}
	for _, k := range fault.Kinds() {
		f := fault.Newf(k, "x")
		if f.ShouldRetry() != helps[k] {
			t.Errorf("%s: a retry helps: %v", k, f.ShouldRetry())
		}
		if s := f.HTTPStatus(); s < 429 && s != 408 && f.ShouldRetry() || s < 400 || s > 599 {
			t.Errorf("%s: status %d", k, s)
		}
		if f.Final = true; f.ShouldRetry() {
			t.Errorf("%s: a final one asks for a retry", k)
		}
	}
}

// TestWhoIsToComeAgainIsToldWhen: also where nobody has said it.
func TestWhoIsToComeAgainIsToldWhen(t *testing.T) {
	for _, k := range fault.Kinds() {
		f := fault.Newf(k, "x")
		if told := f.Wait() > 0; told != (k == fault.Unavailable || k == fault.Overloaded) {
			t.Errorf("%s: %s", k, f.Wait())
		}
		if f.RetryAfter = time.Minute; f.Wait() != time.Minute {
			t.Errorf("%s: %s in place of a minute", k, f.Wait())
		}
	}
}
