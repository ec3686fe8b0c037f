// Package feed is what the sidecars and the control plane of a gateway tell each other about providers: the sidecars what became of
// their requests and pings, the control plane the order that follows from all of it. Each sidecar keeps one gRPC stream to the control
// plane, beside its Envoy's. The package does not know what health is made of, nor where the order is used.
package feed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed/feedpb"
	"bardo.money/gateway/xds/health"
)

// View is all that a sidecar must know to serve.
type View struct {
	Version   string              // another content has another version
	Secret    string              // what calls through its Envoy's egress listener must carry
	Providers []health.Status     // as they are tried; of each, only what the order follows from
	Clusters  []policy.ProviderID // the providers that its Envoy can reach
}

var states = map[health.State]feedpb.Provider_State{
	health.Unknown: feedpb.Provider_UNKNOWN, health.Healthy: feedpb.Provider_HEALTHY, health.Degraded: feedpb.Provider_DEGRADED,
	health.Down: feedpb.Provider_DOWN, health.Disabled: feedpb.Provider_DISABLED,
	health.CredentialRefused: feedpb.Provider_DOWN, // and a flag: older sidecars know no other word for it
}

func stateOf(p *feedpb.Provider) health.State {
	if p.GetState() == feedpb.Provider_DOWN {
		if p.GetCredentialRefused() {
			return health.CredentialRefused
		}
		return health.Down
	}
	for state, wire := range states {
		if wire == p.GetState() {
			return state
		}
	}
	return health.Unknown // of a newer control plane
}

// encode writes a view down. The same content has the same version, however long it still is until a provider has cooled down.
func encode(now time.Time, v View) *feedpb.View {
	out := &feedpb.View{EgressSecret: v.Secret}
	h := sha256.New()
	_, _ = io.WriteString(h, v.Secret+"\n") // a hash takes everything
	for _, s := range v.Providers {
		p := &feedpb.Provider{Id: string(s.Provider), State: states[s.State], Reason: s.Reason, CredentialRefused: s.State == health.CredentialRefused}
		if s.CoolUntil.After(now) {
			p.CoolMs = clamp(s.CoolUntil.Sub(now).Milliseconds() + 1)
		}
		fmt.Fprintf(h, "%q %d %t %q %d\n", p.GetId(), p.GetState(), p.GetCredentialRefused(), p.GetReason(), s.CoolUntil.UnixMilli())
		out.Providers = append(out.Providers, p)
	}
	for _, c := range v.Clusters {
		fmt.Fprintf(h, "%q\n", c)
		out.Clusters = append(out.Clusters, string(c))
	}
	out.Version = hex.EncodeToString(h.Sum(nil)[:12])
	return out
}

func decode(now time.Time, v *feedpb.View) View {
	out := View{Version: v.GetVersion(), Secret: v.GetEgressSecret()}
	for _, p := range v.GetProviders() {
		s := health.Status{Provider: policy.ProviderID(p.GetId()), State: stateOf(p), Reason: p.GetReason()}
		if ms := p.GetCoolMs(); ms > 0 {
			s.CoolUntil = now.Add(time.Duration(ms) * time.Millisecond)
		}
		out.Providers = append(out.Providers, s)
	}
	for _, c := range v.GetClusters() {
		out.Clusters = append(out.Clusters, policy.ProviderID(c))
	}
	return out
}

var kinds = map[health.Kind]feedpb.Result_Kind{
	health.OK: feedpb.Result_OK, health.Failure: feedpb.Result_FAILURE, health.RateLimited: feedpb.Result_RATE_LIMITED, health.Ignored: feedpb.Result_IGNORED,
	health.Unreachable: feedpb.Result_UNREACHABLE, health.Refused: feedpb.Result_REFUSED,
}

func kindOf(k feedpb.Result_Kind) health.Kind {
	for kind, wire := range kinds {
		if wire == k {
			return kind
		}
	}
	return health.Ignored // of a newer sidecar
}

func encodeResult(r health.Result) *feedpb.Result {
	return &feedpb.Result{
		Provider: string(r.Provider), Kind: kinds[r.Kind],
		RetryAfterMs: clamp(r.RetryAfter.Milliseconds()), LatencyUs: clamp(r.Latency.Microseconds()), Reason: r.Reason,
	}
}

func decodeResult(r *feedpb.Result) health.Result {
	return health.Result{
		Provider: policy.ProviderID(r.GetProvider()), Kind: kindOf(r.GetKind()),
		RetryAfter: time.Duration(r.GetRetryAfterMs()) * time.Millisecond, Latency: time.Duration(r.GetLatencyUs()) * time.Microsecond,
		Reason: r.GetReason(),
	}
}

// encodePing writes down the outcome of a ping. Why it failed is in this sidecar's log, but what the provider says of the credential.
func encodePing(p policy.ProviderID, err error) *feedpb.Ping {
	out := &feedpb.Ping{Provider: string(p)}
	if err == nil {
		return out
	}
	out.Error = "failed"
	if u, ok := errors.AsType[*health.Unreached](err); ok {
		out.Error, out.Unreachable = u.Error(), true
	}
	if r, ok := errors.AsType[*health.Refusal](err); ok {
		out.Error, out.Refused = cmp.Or(r.Reason, out.GetError()), clamp(int64(r.Status))
	}
	return out
}

// decodePing is the error of a ping; nil for one that was answered.
func decodePing(p *feedpb.Ping) error {
	switch {
	case p.GetError() == "":
		return nil
	case p.GetRefused() != 0:
		return &health.Refusal{Status: int(p.GetRefused()), Reason: p.GetError()}
	case p.GetUnreachable():
		return &health.Unreached{Reason: p.GetError()}
	}
	return errPing
}

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
