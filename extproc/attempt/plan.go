package attempt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Plan lists the candidate of each attempt that Envoy makes by itself, on the native path. It is never empty.
type Plan []policy.Resolution

// NewPlan lists each candidate of a request once; a sole candidate twice, or once per key.
func NewPlan(v *request.View) Plan {
	plan := v.Order
	if len(plan) == 1 {
		plan = slices.Repeat(plan, max(2, v.Config.Provider(plan[0].Provider).Ring.Len()))
	}
	if maxAttempts := 1 + v.Config.MaxRetries; len(plan) > maxAttempts {
		plan = plan[:maxAttempts]
	}
	return plan
}

// At returns the candidate of attempt n (from 1); Envoy repeats the last group of its order.
func (p Plan) At(n int) policy.Resolution { return p[min(max(n, 1), len(p))-1] }

// After returns the candidates that Envoy would have called after attempt n, without the provider that just answered.
func (p Plan) After(n int, answered policy.ProviderID) []policy.Resolution {
	after := slices.Clone(p[min(n, len(p)):])
	return slices.DeleteFunc(after, func(r policy.Resolution) bool { return r.Provider == answered })
}

// Clusters returns Envoy's clusters of the plan: the first attempt is encoded already; later ones go to retry clusters, whose streams encode them.
func (p Plan) Clusters(v *request.View) []string {
	out := make([]string, len(p))
	for i := 1; i < len(p); i++ {
		if i > 1 && p[i].Provider == p[i-1].Provider {
			out[i] = out[i-1]
			continue
		}
		out[i] = state.RetryCluster(v.Config.Provider(p[i].Provider).Cluster)
	}
	out[0] = state.Cluster(v.Config.Provider(p[0].Provider).Cluster)
	return out
}

// Headers append the headers that choose Envoy's route, the number of its retries and their timeouts.
func (p Plan) Headers(h header.List, v *request.View) header.List {
	path := state.PathJSON
	if len(v.Order) == 1 && v.Config.Provider(v.Order[0].Provider).Ring.Len() == 0 {
		path = state.PathAlone
	}
	try := v.Config.Timeouts.ForAnswer(v.Request, v.OutputTokens(p[0]))
	h = append(h,
		header.Field{Name: state.HeaderPath, Value: path},
		header.Field{Name: "x-envoy-max-retries", Value: strconv.Itoa(len(p) - 1)},
		header.Field{Name: "x-envoy-upstream-rq-timeout-ms", Value: strconv.FormatInt(v.TotalTime().Milliseconds(), 10)},
		header.Field{Name: "x-envoy-upstream-rq-per-try-timeout-ms", Value: strconv.FormatInt(try.Milliseconds(), 10)},
	)
	return append(h, v.AffinityHeader()...)
}

// Check returns the error of attempt n (from 1) at another cluster than planned, else nil. The request must not be sent there with the planned
// provider's key, and its answer must not be decoded as the planned provider's.
func (p Plan) Check(v *request.View, cluster string, n int) error {
	at := v.Config.Provider(p.At(n).Provider).Cluster
	if at == state.ProviderOf(cluster) {
		return nil
	}
	return fmt.Errorf("attempt %d of %s went to %q, planned was %q", n, v.ID, cluster, at)
}

// Again returns Envoy's decision after attempt n (from 1) failed.
func (p Plan) Again(n int) upstream.Decision {
	if p.At(n+1).Provider == p.At(n).Provider {
		return upstream.Decision{Move: upstream.Repeat, Why: "the only candidate, and the failure may pass"}
	}
	return upstream.Decision{Move: upstream.Advance, Why: "another candidate may do better"}
}

// Earlier returns why attempt n (from 1), before the last one, failed: noted is what Envoy kept of its answer. Envoy keeps nothing of an attempt
// without an answer: the connection may have failed or broken off, or timed out.
func (p Plan) Earlier(n int, noted string) *upstream.Failure {
	by := p.At(n).Provider
	parts := strings.Split(noted, ";")
	if len(parts) != 3 {
		return &upstream.Failure{Provider: by, Kind: upstream.NoAnswer}
	}
	code, _ := strconv.Atoi(parts[1])
	return &upstream.Failure{Provider: by, Kind: upstream.ByStatus, Status: code, RetryAfter: upstream.RetryAfter(parts[2])}
}
