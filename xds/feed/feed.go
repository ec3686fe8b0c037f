// Package feed exchanges health between sidecars and the control plane: sidecars report the results of requests and pings, and the control plane
// sends the resulting order of providers. Each sidecar keeps one gRPC stream to the control plane, besides its Envoy's. The package does not know
// the rules of health or how the order is used.
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

// View is what a sidecar needs from the control plane.
type View struct {
	Version   string              // differs if the content does
	Secret    string              // secret of its Envoy's egress listener
	Providers []health.Status     // in the order of the control plane, with the values that determine it
	Clusters  []policy.ProviderID // the providers that its Envoy can reach
}

var states = map[health.State]feedpb.Provider_State{
	health.Unknown: feedpb.Provider_UNKNOWN, health.Healthy: feedpb.Provider_HEALTHY, health.Degraded: feedpb.Provider_DEGRADED,
	health.Down: feedpb.Provider_DOWN, health.Disabled: feedpb.Provider_DISABLED,
	health.CredentialRefused: feedpb.Provider_DOWN, // with a flag, because older sidecars know no other state for it
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

// encode encodes a view. The version depends on the content, but not on the remaining time of cooldowns.
func encode(now time.Time, v View) *feedpb.View {
	out := &feedpb.View{EgressSecret: v.Secret}
	h := sha256.New()
	_, _ = io.WriteString(h, v.Secret+"\n") // a hash never fails
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

// encodePing encodes the outcome of a ping. The reason of a failure stays in the sidecar's log, except for a refused credential.
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

// decodePing returns the error of a ping; nil for success.
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
