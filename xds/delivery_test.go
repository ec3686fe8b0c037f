package xds

import (
	"fmt"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bardo.money/gateway/xds/state"
)

const clusterKind = resourcev3.ClusterType

// oneNode is a plane with one node, and its stream.
func oneNode(t *testing.T, o Options) (p *plane, n *node, stream int64) {
	t.Helper()
	p = newPlane(t, o)
	t.Cleanup(p.stopRetries)
	stream, err := p.connect(t, introduction(t, local("gw")))
	if err != nil {
		t.Fatal(err)
	}
	return p, p.nodes["gw"], stream
}

// reply is an Envoy's ACK or, with why, its NACK.
func (p *plane) reply(t *testing.T, stream int64, kind resourcev3.Type, version, why string) {
	t.Helper()
	p.acks.response(t.Context(), stream, nil, &discoveryv3.DiscoveryResponse{TypeUrl: kind, Nonce: version, VersionInfo: version})
	r := &discoveryv3.DiscoveryRequest{Node: introduction(t, local("gw")), TypeUrl: kind, ResponseNonce: version, VersionInfo: version}
	if why != "" {
		r.ErrorDetail = status.New(codes.Internal, why).Proto()
	}
	if err := p.acks.request(stream, r); err != nil {
		t.Fatal(err)
	}
}

// take makes the Envoy accept everything that it is served.
func (p *plane) take(t *testing.T, n *node, stream int64) {
	t.Helper()
	for kind, version := range versionsOf(n.served) {
		p.reply(t, stream, kind, version, "")
	}
}

func TestARefusalOfWhatIsNotServedChangesNothing(t *testing.T) {
	p, n, _ := oneNode(t, Options{})
	p.refuse("gw", clusterKind, "of-yesterday")
	if n.refused != nil || n.retry != nil || n.failures != 0 {
		t.Errorf("refused %v after %d failures", n.refused, n.failures)
	}
}

// A second refusal before the next attempt does not count as another failure, and the last good configuration is not served in a loop.
func TestOneRefusalCountsOnce(t *testing.T) {
	p, n, stream := oneNode(t, Options{Retry: time.Hour})
	p.take(t, n, stream)
	serial := n.serial
	for range 2 {
		p.reply(t, stream, clusterKind, n.served.GetVersion(clusterKind), "not any more")
	}
	if n.failures != 1 || n.serial != serial {
		t.Errorf("%d failures, and something was served %d times", n.failures, n.serial-serial)
	}
}

// The back-off restarts after an ACK, and for a new configuration.
func TestTheBackOffBeginsAnew(t *testing.T) {
	p, n, stream := oneNode(t, Options{Retry: time.Hour})
	p.reply(t, stream, clusterKind, n.served.GetVersion(clusterKind), "no")
	p.offerAgain("gw", n)
	p.take(t, n, stream)
	p.reply(t, stream, clusterKind, n.served.GetVersion(clusterKind), "no")
	if n.failures != 1 {
		t.Errorf("after what it took: %d failures", n.failures)
	}
	if err := p.Set(t.Context(), shared("b")); err != nil {
		t.Fatal(err)
	}
	if n.failures != 0 || n.retry != nil || len(p.Refusals()) != 0 {
		t.Errorf("after something new: %d failures, refusals %+v", n.failures, p.Refusals())
	}
}

// An attempt that was cancelled while its timer fired serves nothing.
func TestAnAttemptThatWasCalledOffServesNothing(t *testing.T) {
	p, n, stream := oneNode(t, Options{Retry: time.Hour})
	p.reply(t, stream, clusterKind, n.served.GetVersion(clusterKind), "no")
	n.stop()
	serial := n.serial
	if p.offerAgain("gw", n); n.serial != serial {
		t.Error("something was served")
	}
}

// A reported refusal concerns the wanted configuration: it ends when that is accepted, and a refusal of the last good configuration, which is served
// in the meantime, does not count.
func TestARefusalIsAboutWhatIsWanted(t *testing.T) {
	p, n, stream := oneNode(t, Options{Retry: time.Hour})
	p.take(t, n, stream)
	if err := p.Set(t.Context(), shared("a", "b")); err != nil {
		t.Fatal(err)
	}
	wanted := n.served.GetVersion(clusterKind)
	p.reply(t, stream, clusterKind, wanted, "not this")
	p.reply(t, stream, clusterKind, n.served.GetVersion(clusterKind), "nor that")
	if all := p.Refusals(); len(all) != 1 || all[0].Reason != "not this" {
		t.Errorf("refusals %+v", all)
	}
	p.reply(t, stream, clusterKind, wanted+attemptMark+"7", "")
	if all := p.Refusals(); len(all) != 0 {
		t.Errorf("after all it was taken, and refusals are %+v", all)
	}
}

// A node's error is logged once, and again only after it was served. The names of refused nodes, which anybody can make up, take bounded memory.
func TestAComplaintIsLoggedOnce(t *testing.T) {
	p, _, _ := oneNode(t, Options{MaxNodes: 2})
	bad := shared("a")
	bad.Providers = append(bad.Providers, state.Provider{ID: "demo", Demo: true}) // needs a socket, which the node has not
	logged := func() int { return strings.Count(p.log.String(), "a node cannot be served") }
	for i, want := range []int{1, 1, 1, 2} {
		st := bad
		if i == 2 {
			st = shared("a")
		}
		if err := p.Set(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		if n := logged(); n != want {
			t.Errorf("after state %d it was logged %d times, want %d", i, n, want)
		}
	}
	for i := range 20 {
		p.logOnce(fmt.Sprint("made-up-", i), status.Error(codes.InvalidArgument, "no"))
	}
	if n := len(p.lastRefusal); n > 2*2+1 {
		t.Errorf("%d names are kept", n)
	}
}
