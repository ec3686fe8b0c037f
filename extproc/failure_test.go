package extproc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// said is a provider's stated error.
func said(status int) *failure {
	return statusFailure("p", &chat.ProviderError{Status: status, Message: "as the provider said", Code: "its_code"})
}

// limited is a 429 that asks for a pause.
func limited(seconds int) *failure {
	return statusFailure("p", &chat.ProviderError{Status: 429, RetryAfter: seconds})
}

func TestWhatTheClientSeesWhenEveryAttemptFailed(t *testing.T) {
	broken := &failure{provider: "p", kind: failReset}
	for _, tt := range []struct {
		name   string
		fs     []*failure
		kind   fault.Kind
		status int
		after  time.Duration
	}{
		{"nothing was tried", nil, fault.NoProvider, 503, 0},
		{"all over their limits: the shortest pause", []*failure{limited(30), limited(7)}, fault.RateLimited, 429, 7 * time.Second},
		{"over the limit without a pause: one second", []*failure{said(429)}, fault.RateLimited, 429, time.Second},
		{"all overloaded", []*failure{said(529), said(503)}, fault.Overloaded, 503, 5 * time.Second},
		{"all overloaded, in Anthropic's words", []*failure{said(529), said(529)}, fault.Overloaded, 529, 5 * time.Second},
		{"overloaded and over the limit", []*failure{said(429), said(503)}, fault.Overloaded, 503, 5 * time.Second},
		{"a bad credential of the operator's own", []*failure{said(401)}, fault.Upstream, 502, 0},
		{"a server error", []*failure{said(500)}, fault.Upstream, 502, 0},
		{"a time-out", []*failure{said(500), {provider: "p", kind: failTimeout}}, fault.UpstreamTimeout, 504, 0},
		{"the provider's own time-out", []*failure{said(504)}, fault.UpstreamTimeout, 504, 0},
		{"a broken connection", []*failure{broken}, fault.Upstream, 502, 0},
		{"the caller's own mistake", []*failure{said(400)}, fault.InvalidRequest, 400, 0},
		{"too large for the provider", []*failure{said(413)}, fault.TooLarge, 413, 0},
		{"unprocessable", []*failure{broken, said(422)}, fault.InvalidRequest, 422, 0},
		{"nothing to be said in its format", []*failure{{provider: "p", kind: failEncode, cause: fault.Newf(fault.InvalidRequest, "no")}}, fault.InvalidRequest, 400, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := exhausted(tt.fs)
			if f.Kind != tt.kind || f.HTTPStatus() != tt.status || f.RetryAfter != tt.after {
				t.Errorf("got %s, status %d, retry after %s", f, f.HTTPStatus(), f.RetryAfter)
			}
			if tt.status >= 500 && strings.Contains(f.Public, "as the provider said") {
				t.Errorf("the provider's words reach the client: %q", f.Public)
			}
			if tt.status < 500 && tt.status != 429 && tt.fs[0].kind == failStatus && f.Code != "its_code" {
				t.Errorf("the provider's code is lost: %q", f.Code)
			}
		})
	}
}

func TestK56WhichFailuresGoToTheNextProvider(t *testing.T) {
	for status, want := range map[int]bool{
		400: false, 404: false, 405: false, 409: false, 413: false, 415: false, 422: false,
		401: true, 402: true, 403: true, 408: true, 429: true, 500: true, 502: true, 503: true, 504: true, 529: true,
	} {
		if got := said(status).retriable(); got != want {
			t.Errorf("status %d: tried further is %t, want %t", status, got, want)
		}
	}
	for _, kind := range []failureKind{failConnect, failReset, failTimeout, failEncode} {
		if !(&failure{kind: kind}).retriable() {
			t.Errorf("failure of kind %d is not tried further", kind)
		}
	}
}

func TestWhatAFailureSaysAboutHealth(t *testing.T) {
	for _, tt := range []struct {
		f    *failure
		want policy.Outcome
	}{
		{said(500), policy.Failed},
		{said(408), policy.Failed},
		{said(401), policy.Refused},
		{said(402), policy.Failed},
		{said(400), policy.Ignored},
		{said(404), policy.Ignored},
		{said(403), policy.Refused},
		{&failure{kind: failStatus, status: 403, err: &chat.ProviderError{Status: 403, Message: "m requires moderation. Your input was flagged"}}, policy.Ignored},
		{&failure{kind: failStatus, status: 401}, policy.Refused}, // a status that Envoy noted
		{&failure{kind: failConnect, unknown: true}, policy.Failed},
		{limited(3), policy.RateLimited},
		{&failure{kind: failConnect}, policy.Unreachable},
		{&failure{kind: failTimeout}, policy.Failed},
		{&failure{kind: failEncode}, policy.Ignored},
	} {
		if got := tt.f.result().Outcome; got != tt.want {
			t.Errorf("%s says %d, want %d", tt.f, got, tt.want)
		}
	}
}

func TestWhyEnvoyAnsweredInAProvidersPlace(t *testing.T) {
	for details, want := range map[string]failureKind{
		"upstream_reset_before_response_started{connection_failure}":        failConnect,
		"upstream_reset_before_response_started{remote_connection_failure}": failConnect,
		"no_healthy_upstream":      failConnect,
		"cluster_not_found":        failConnect,
		"upstream_per_try_timeout": failTimeout,
		"response_timeout":         failTimeout,
		"upstream_reset_before_response_started{connection_termination}": failReset,
	} {
		if got := localFailure("p", 503, details).kind; got != want {
			t.Errorf("%s is kind %d, want %d", details, got, want)
		}
	}
}

func TestACutStreamIsWorthARetryK47(t *testing.T) {
	for _, tt := range []struct {
		f    *failure
		want fault.Kind
	}{
		{said(400), fault.Upstream},
		{said(500), fault.Upstream},
		{said(429), fault.RateLimited},
		{said(503), fault.Overloaded},
		{said(529), fault.Overloaded},
		{&failure{kind: failReset, cause: errTooLong}, fault.Upstream},
		{&failure{kind: failTimeout}, fault.UpstreamTimeout},
	} {
		if got := tt.f.cutFault().Kind; got != tt.want {
			t.Errorf("%s ends a stream with %s, want %s", tt.f, got, tt.want)
		}
	}
}

func TestScrubRemovesWhatLooksLikeACredential(t *testing.T) {
	const in = "Incorrect API key provided: sk-proj-abcdef123456, sent as Bearer abcdef, bardo_sk_0123456789"
	out := scrub(in)
	for _, secret := range []string{"sk-proj", "abcdef", "0123456789"} {
		if strings.Contains(out, secret) {
			t.Errorf("%q is still in %q", secret, out)
		}
	}
	if long := scrub(strings.Repeat("ä", 5000)); len(long) > 2100 || !strings.HasSuffix(long, "…") {
		t.Errorf("a long sentence is %d bytes", len(long))
	}
}

func TestAFailuresCauseStaysPrivate(t *testing.T) {
	f := exhausted([]*failure{{provider: "p", kind: failReset, cause: errors.New("10.0.0.1: refused")}})
	if strings.Contains(f.Public, "10.0.0.1") || !strings.Contains(f.Error(), "10.0.0.1") {
		t.Errorf("public %q, log %q", f.Public, f.Error())
	}
}

// TestWhoCouldNotBeAskedSaysNothingOfThoseWhoWere: a request that one candidate's format cannot say fails by what the others said.
func TestWhoCouldNotBeAskedSaysNothingOfThoseWhoWere(t *testing.T) {
	unsaid := &failure{provider: "a", kind: failEncode, cause: fault.Newf(fault.InvalidRequest, "it takes no audio")}
	down := &failure{provider: "b", kind: failStatus, status: 503, err: &chat.ProviderError{Status: 503}}
	for _, row := range []struct {
		fs   []*failure
		want fault.Kind
	}{
		{[]*failure{unsaid}, fault.InvalidRequest},
		{[]*failure{unsaid, unsaid}, fault.InvalidRequest},
		{[]*failure{unsaid, down}, fault.Overloaded},
		{[]*failure{down, unsaid}, fault.Overloaded},
	} {
		if f := exhausted(row.fs); f.Kind != row.want {
			t.Errorf("%v: got %v, want %s", row.fs, f, row.want)
		}
	}
}

func TestWhyThereWasNoConnectionIsSaid(t *testing.T) {
	for envoy, want := range map[string]string{
		"upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}":                                    "no connection: connection refused",
		"upstream_reset_before_response_started{remote_connection_failure|TLS_error:|268435703:SSL_routines:OPENSSL_internal:WRONG_VERSION_NUMBER}":      "no connection: what listens there does not speak TLS",
		"upstream_reset_before_response_started{remote_connection_failure|TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED}": "no connection: its certificate is not trusted",
		"no_healthy_upstream": "no connection: its name has no address",
		"upstream_reset_before_response_started{connection_timeout}":        "no connection: no answer in time",
		"upstream_reset_before_response_started{remote_connection_failure}": "no connection",
	} {
		if r := localFailure("p", 503, envoy).result(); r.Outcome != policy.Unreachable || r.Reason != want {
			t.Errorf("%s: %+v, want %q", envoy, r, want)
		}
	}
}
