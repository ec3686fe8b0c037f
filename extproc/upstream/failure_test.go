package upstream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// statedError returns the failure for a provider's stated error.
func statedError(status int) *Failure {
	return Stated("p", &chat.ProviderError{Status: status, Message: "as the provider said", Code: "its_code"})
}

// limited returns a 429 that asks for a pause.
func limited(seconds int) *Failure {
	return Stated("p", &chat.ProviderError{Status: 429, RetryAfter: seconds})
}

func TestWhatTheClientSeesWhenEveryAttemptFailed(t *testing.T) {
	broken, unkept := &Failure{Provider: "p", Kind: Reset}, &Failure{Provider: "p", Kind: Retained, Cause: errors.New("a header is missing")}
	for _, tt := range []struct {
		name   string
		fs     []*Failure
		kind   fault.Kind
		status int
		after  time.Duration
	}{
		{"nothing was tried", nil, fault.NoProvider, 503, 0},
		{"all over their limits: the shortest pause", []*Failure{limited(30), limited(7)}, fault.RateLimited, 429, 7 * time.Second},
		{"over the limit without a pause: one second", []*Failure{statedError(429)}, fault.RateLimited, 429, time.Second},
		{"all overloaded", []*Failure{statedError(529), statedError(503)}, fault.Overloaded, 503, 5 * time.Second},
		{"all overloaded, in Anthropic's words", []*Failure{statedError(529), statedError(529)}, fault.Overloaded, 529, 5 * time.Second},
		{"overloaded and over the limit", []*Failure{statedError(429), statedError(503)}, fault.Overloaded, 503, 5 * time.Second},
		{"a bad credential of the operator's own", []*Failure{statedError(401)}, fault.Upstream, 502, 0},
		{"a server error", []*Failure{statedError(500)}, fault.Upstream, 502, 0},
		{"a time-out", []*Failure{statedError(500), {Provider: "p", Kind: TimedOut}}, fault.UpstreamTimeout, 504, 0},
		{"the provider's own time-out", []*Failure{statedError(504)}, fault.UpstreamTimeout, 504, 0},
		{"a broken connection", []*Failure{broken}, fault.Upstream, 502, 0},
		{"the caller's own mistake", []*Failure{statedError(400)}, fault.InvalidRequest, 400, 0},
		{"too large for the provider", []*Failure{statedError(413)}, fault.TooLarge, 413, 0},
		{"unprocessable", []*Failure{broken, statedError(422)}, fault.InvalidRequest, 422, 0},
		{"an answer that was discarded, after other failures", []*Failure{statedError(503), unkept}, fault.NoPrivateProvider, 503, 0},
		{"an answer that was discarded, before other failures", []*Failure{unkept, statedError(503)}, fault.NoPrivateProvider, 503, 0},
		{"nothing to be said in its format", []*Failure{{Provider: "p", Kind: NotEncoded, Cause: fault.Newf(fault.InvalidRequest, "no")}}, fault.InvalidRequest, 400, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Exhausted(tt.fs)
			if f.Kind != tt.kind || f.HTTPStatus() != tt.status || f.RetryAfter != tt.after {
				t.Errorf("got %s, status %d, retry after %s", f, f.HTTPStatus(), f.RetryAfter)
			}
			if tt.status >= 500 && strings.Contains(f.Public, "as the provider said") {
				t.Errorf("the provider's words reach the client: %q", f.Public)
			}
			if tt.status < 500 && tt.status != 429 && tt.fs[0].Kind == ByStatus && f.Code != "its_code" {
				t.Errorf("the provider's code is lost: %q", f.Code)
			}
		})
	}
}

// TestAnAnswerThatIsNoneIsNotShownAsAStatus: a provider that sends something else with status 200 did not answer 502.
func TestAnAnswerThatIsNoneIsNotShownAsAStatus(t *testing.T) {
	f := Stated("p", &chat.ProviderError{Status: 502, Type: "invalid_response", Message: "the provider's answer is not valid JSON", Unusable: true})
	out := Exhausted([]*Failure{f})
	if out.Kind != fault.Upstream || out.HTTPStatus() != 502 || out.Public != "no usable answer from provider p: the provider's answer is not valid JSON" {
		t.Errorf("the client gets %d %q", out.HTTPStatus(), out.Public)
	}
	if f.String() != "invalid_answer" || f.Reason() != "the provider's answer is not valid JSON" || f.Result().Outcome != policy.Failed || !f.Retriable() {
		t.Errorf("got %s, %q, %+v", f, f.Reason(), f.Result())
	}
}

func TestK56WhichFailuresGoToTheNextProvider(t *testing.T) {
	for status, want := range map[int]bool{
		400: false, 404: false, 405: false, 409: false, 413: false, 415: false, 422: false,
		401: true, 402: true, 403: true, 408: true, 429: true, 500: true, 502: true, 503: true, 504: true, 529: true,
	} {
		if got := statedError(status).Retriable(); got != want {
			t.Errorf("status %d: tried further is %t, want %t", status, got, want)
		}
	}
	for _, kind := range []Kind{NoConnection, Reset, TimedOut, NotEncoded} {
		if !(&Failure{Kind: kind}).Retriable() {
			t.Errorf("failure of kind %d is not tried further", kind)
		}
	}
}

func TestWhatAFailureSaysAboutHealth(t *testing.T) {
	for _, tt := range []struct {
		f    *Failure
		want policy.Outcome
	}{
		{statedError(500), policy.Failed},
		{statedError(408), policy.Failed},
		{statedError(401), policy.Refused},
		{statedError(402), policy.Failed},
		{statedError(400), policy.Ignored},
		{statedError(404), policy.Ignored},
		{statedError(403), policy.Refused},
		{&Failure{Kind: ByStatus, Status: 403, Err: &chat.ProviderError{Status: 403, Message: "m requires moderation. Your input was flagged"}}, policy.Ignored},
		{&Failure{Kind: ByStatus, Status: 401}, policy.Refused}, // a status that Envoy noted
		{&Failure{Kind: NoConnection, Unknown: true}, policy.Failed},
		{limited(3), policy.RateLimited},
		{&Failure{Kind: NoConnection}, policy.Unreachable},
		{&Failure{Kind: TimedOut}, policy.Failed},
		{&Failure{Kind: NotEncoded}, policy.Ignored},
	} {
		if got := tt.f.Result().Outcome; got != tt.want {
			t.Errorf("%s says %d, want %d", tt.f, got, tt.want)
		}
	}
}

func TestWhyEnvoyAnsweredInAProvidersPlace(t *testing.T) {
	for details, want := range map[string]Kind{
		"upstream_reset_before_response_started{connection_failure}":        NoConnection,
		"upstream_reset_before_response_started{remote_connection_failure}": NoConnection,
		"no_healthy_upstream":      NoConnection,
		"cluster_not_found":        NoConnection,
		"upstream_per_try_timeout": TimedOut,
		"response_timeout":         TimedOut,
		"upstream_reset_before_response_started{connection_termination}": Reset,
	} {
		if got := Local("p", 503, details).Kind; got != want {
			t.Errorf("%s is kind %d, want %d", details, got, want)
		}
	}
}

func TestACutStreamIsWorthARetryK47(t *testing.T) {
	for _, tt := range []struct {
		f    *Failure
		want fault.Kind
	}{
		{statedError(400), fault.Upstream},
		{statedError(500), fault.Upstream},
		{statedError(429), fault.RateLimited},
		{statedError(503), fault.Overloaded},
		{statedError(529), fault.Overloaded},
		{&Failure{Kind: Reset, Cause: ErrTooLong}, fault.Upstream},
		{&Failure{Kind: TimedOut}, fault.UpstreamTimeout},
	} {
		if got := tt.f.CutFault().Kind; got != tt.want {
			t.Errorf("%s ends a stream with %s, want %s", tt.f, got, tt.want)
		}
	}
}

// TestACutStreamSaysWhatItsProviderSaid: only of errors about the request or the answer, without credentials.
func TestACutStreamSaysWhatItsProviderSaid(t *testing.T) {
	for _, tt := range []struct {
		err  chat.ProviderError
		want string
	}{
		{chat.ProviderError{Status: 400, Message: "no such tool", Generated: "{}"}, "provider p broke off its answer: no such tool"},
		{chat.ProviderError{Status: 400, Message: "not with sk-proj-abcdef123456", Generated: "{}"}, "provider p broke off its answer: not with ***"},
		{chat.ProviderError{Status: 502, Message: "it ended with OTHER", Unusable: true}, "provider p broke off its answer: it ended with OTHER"},
		{chat.ProviderError{Status: 402, Message: "the account is empty"}, "provider p broke off its answer"},
		{chat.ProviderError{Status: 500, Message: "our host db7"}, "provider p broke off its answer"},
	} {
		if f := Stated("p", &tt.err).CutFault(); f.Public != tt.want || f.Generated != tt.err.Generated {
			t.Errorf("%+v ends a stream with %+v", tt.err, f)
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
	f := Exhausted([]*Failure{{Provider: "p", Kind: Reset, Cause: errors.New("10.0.0.1: refused")}})
	if strings.Contains(f.Public, "10.0.0.1") || !strings.Contains(f.Error(), "10.0.0.1") {
		t.Errorf("public %q, log %q", f.Public, f.Error())
	}
}

// TestWhoCouldNotBeAskedSaysNothingOfThoseWhoWere: if one candidate's format cannot express a request, the result is that of the other candidates.
func TestWhoCouldNotBeAskedSaysNothingOfThoseWhoWere(t *testing.T) {
	unsaid := &Failure{Provider: "a", Kind: NotEncoded, Cause: fault.Newf(fault.InvalidRequest, "it takes no audio")}
	down := &Failure{Provider: "b", Kind: ByStatus, Status: 503, Err: &chat.ProviderError{Status: 503}}
	for _, row := range []struct {
		fs   []*Failure
		want fault.Kind
	}{
		{[]*Failure{unsaid}, fault.InvalidRequest},
		{[]*Failure{unsaid, unsaid}, fault.InvalidRequest},
		{[]*Failure{unsaid, down}, fault.Overloaded},
		{[]*Failure{down, unsaid}, fault.Overloaded},
	} {
		if f := Exhausted(row.fs); f.Kind != row.want {
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
		"upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused} 127.0.0.1:2":   "no connection: its name has no address",
		"upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused} 127.0.0.1:22":  "no connection: connection refused",
		"upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused_or_no_address}": "no connection: connection refused, or its name has no address",
		"upstream_reset_before_response_started{connection_timeout}":                                                                "no connection: no answer in time",
		"upstream_reset_before_response_started{remote_connection_failure}":                                                         "no connection",
	} {
		if r := Local("p", 503, envoy).Result(); r.Outcome != policy.Unreachable || r.Reason != want {
			t.Errorf("%s: %+v, want %q", envoy, r, want)
		}
	}
}
