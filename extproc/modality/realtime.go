package modality

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/xds/state"
)

// RealtimePath is the path at which realtime sessions are opened.
const RealtimePath = version + string(kind.Realtime)

// realtime is the operation of realtime sessions. It is not in operations, because its requests have no body.
var realtime = Operation{Endpoint: kind.Realtime, Feature: policy.Realtime}

// Realtime returns the request for one response of a realtime session with a model, which may read and write at most these numbers of tokens.
func Realtime(model string, context, output int64) *Request {
	return &Request{Op: &realtime, Model: model, text: context, output: output}
}

// Window returns the largest context window of candidates in tokens; 0 if one is unknown.
func Window(candidates []policy.Resolution) (n int64) {
	for i := range candidates {
		if candidates[i].Context <= 0 {
			return 0
		}
		n = max(n, int64(candidates[i].Context))
	}
	return n
}

// maxOfSession sets the maximum usage of one response of a session: all of it counts as the kind of tokens with the highest price.
func (r *Request) maxOfSession(to *policy.Resolution, u *Used) {
	n := r.text
	if to.Context > 0 {
		n = min(n, int64(to.Context))
	}
	u.Text, u.Output = 0, min(atLeast(int64(to.MaxOutput), maxOutputTokens), r.output)
	p, units := &to.Prices, to.Prices.Units
	if units == nil {
		units = &policy.UnitPrices{}
	}
	switch audio, image := orElse(units.AudioInput, p.Input), orElse(units.ImageInput, p.Input); {
	case audio >= p.Input && audio >= image:
		u.Audio = n
	case image >= p.Input:
		u.Image = n
	default:
		u.Text = n
	}
	if units.AudioOutput > p.Output {
		u.AudioOutput = u.Output
	}
}

// MayRelay refuses a session whose events would have to be inspected or changed, or not to be seen: they pass unchanged, and speech cannot be searched. It
// sets the view's profile. The error is a fault.
func MayRelay(v *request.View) error {
	if v.KeepsNothing() || v.KeepsToPrivate() {
		return fault.Newf(fault.NoPrivateProvider, "realtime sessions cannot be private or confidential: call another endpoint, or send neither X-Bardo-Security-Class "+
			"nor X-Bardo-Privacy-Tier, and no subsystem that needs a private provider")
	}
	v.Profile, v.DirectKey = intent.Pipeline(&v.Intent, v.Hints.Pipeline, v.Config.Intents.Pipeline), v.SkipsMasking()
	if what := v.Config.Pipeline.Demands(&v.Exchange); what != "" {
		return fault.Newf(fault.KeyRestricted, "realtime sessions are not available to this request, because their events pass unchanged: %s. Call another endpoint, or use a "+
			"key to which this does not apply", what)
	}
	return nil
}

// Dial opens a session with the first of the view's candidates that accepts it. The error is a fault.
func Dial(ctx context.Context, v *request.View, egress *http.Client, sink Sink) (*websocket.Conn, *policy.Resolution, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, min(v.Config.Timeouts.Total, dialTimeout), upstream.ErrTotalTimeout)
	defer cancel()
	c := Call{View: v, Egress: egress, Sink: sink, redactor: v.Redactor()}
	seq := upstream.Sequence{Candidates: v.Order, MaxRetries: v.Config.MaxRetries}
	for to := seq.Candidate(); to != nil; to = seq.Candidate() {
		sink.AttemptStarts(to)
		conn, f := c.dial(ctx, to)
		if f == nil {
			return conn, to, nil
		}
		sink.Failed(to, f, seq.Failed(upstream.State{Failure: f, Over: ctx.Err() != nil}, *to))
	}
	return nil, nil, sink.Exhausted(seq.Failures)
}

// dialTimeout bounds the handshakes with providers, all together.
const dialTimeout = 30 * time.Second

// dial opens a session with one candidate.
func (c *Call) dial(ctx context.Context, to *policy.Resolution) (*websocket.Conn, *upstream.Failure) {
	at, p := c.Sink.Endpoint(to.Provider), c.View.Config.Provider(to.Provider)
	relay, _ := p.Adapter.(provider.Relay) // candidates without one were removed by serves
	call := relay.Relay(kind.Realtime, Upstream(to), at)
	h := http.Header{}
	if agent := c.View.Head.Header.Get("user-agent"); agent != "" {
		h.Set("User-Agent", agent)
	}
	for _, f := range call.Header {
		h.Set(f.Name, f.Value)
	}
	h.Set(state.HeaderCluster, state.RealtimeCluster(p.Cluster))
	h.Set(state.HeaderExchange, c.View.Config.EgressSecret+"."+c.View.ID)
	conn, resp, err := websocket.Dial( //nolint:bodyclose // the library closes it
		ctx, "http://egress"+call.Path+"?model="+url.QueryEscape(Upstream(to)), &websocket.DialOptions{
			HTTPClient: c.Egress, HTTPHeader: h, Host: at.Authority, CompressionMode: websocket.CompressionDisabled,
		})
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, &upstream.Failure{Provider: to.Provider, Kind: upstream.TimedOut, Cause: context.Cause(ctx)}
	case resp == nil || resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, &upstream.Failure{Provider: to.Provider, Kind: upstream.Reset, Cause: err}
	case resp.Header.Get(state.HeaderFailure) != "":
		return nil, upstream.Local(to.Provider, resp.StatusCode, resp.Header.Get(state.HeaderFailure))
	}
	return nil, c.stated(to, resp)
}

// Upstream returns the name of a candidate's model at its provider.
func Upstream(to *policy.Resolution) string { return cmp.Or(to.Upstream, string(to.Model)) }
