package extproc

import (
	"context"
	"strings"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/policy"
)

// drainPoll is how often a stream of events looks whether the gateway stops.
const drainPoll = time.Second

// streamEvents sends a stream of events, until its client disconnects, its time is over or the gateway stops.
func (x *exchange) streamEvents(ctx context.Context, r stream.Reply, f api.Follower) error {
	defer f.Close()
	x.trace.Unbilled = &record.End{Status: r.Status, Outcome: record.OK}
	if err := x.client.StreamHead(r.Status, r.Header); err != nil {
		return err
	}
	for end := time.Now().Add(api.StreamLife); time.Now().Before(end) && !x.gw.Draining(); {
		b, err := f.Next(ctx, drainPoll)
		if err == nil && len(b) > 0 {
			err = x.client.StreamBody(b, false)
		}
		if err != nil {
			return err
		}
	}
	return x.client.StreamBody(nil, true)
}

// byStreamToken finds the caller who names itself by a token in the address; ok is false where there is none.
func (x *exchange) byStreamToken() (p policy.Principal, ok bool, err error) {
	if x.Head.Path != api.StreamPath {
		return p, false, nil
	}
	token := api.StreamToken(x.Head.Query)
	if token == "" {
		return p, false, nil
	}
	t, err := x.gw.api.Tokens.Check(token, x.Head.Peer.IsLoopback(), time.Now())
	return policy.Principal{Account: t.Account, Anonymous: t.Account == ""}, err == nil, err
}

// takesAnyToken reports whether a credential that is not valid is let pass: one for a development token, on this machine, where none is needed at all.
func (x *exchange) takesAnyToken() bool {
	return x.Head.Path == api.StreamTokenPath && x.Config.Keyless != runtime.KeylessNobody && x.Head.Peer.IsLoopback() &&
		strings.HasPrefix(strings.ToLower(x.Head.Header.Get("authorization")), "bearer ")
}
