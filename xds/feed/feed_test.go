package feed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/internal/mtlstest"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed/feedpb"
	"bardo.money/gateway/xds/health"
)

var configured = []policy.ProviderID{"a", "b"}

// plane is a control plane for the feed.
type plane struct {
	*Server
	t       *testing.T
	tracker *health.Tracker
	address string
	stop    func()
	log     *proctest.Output
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	dir, err := os.MkdirTemp("", "feed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &plane{t: t, address: filepath.Join(dir, "xds.sock")}
	p.start(health.Options{Pause: time.Millisecond}, nil)
	return p
}

// start serves at the plane's address, without earlier state.
func (p *plane) start(o health.Options, secure *tls.Config) {
	p.t.Helper()
	p.log = &proctest.Output{}
	p.tracker = health.NewTracker(o, configured...)
	p.Server = NewServer(ServerOptions{
		Tracker: p.tracker, Log: slog.New(slog.NewTextHandler(p.log, nil)), MaxNodes: 3,
		Secret:   func(node string) string { return "secret-of-" + node },
		Clusters: func(string) []policy.ProviderID { return configured },
	})
	network := "unix"
	if !strings.HasPrefix(p.address, "/") {
		network = "tcp"
	}
	l, err := (&net.ListenConfig{}).Listen(p.t.Context(), network, p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.address = l.Addr().String()
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = credentials.NewTLS(secure)
	}
	g := grpc.NewServer(grpc.Creds(creds))
	p.Register(g)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Serve(l) })
	tracker, server := p.tracker, p.Server
	publish := func() { server.Publish(ordered(tracker)) }
	publish()
	running.Go(func() { tracker.Watch(ctx, publish) })
	p.stop = sync.OnceFunc(func() { cancel(); g.Stop(); running.Wait() })
	p.t.Cleanup(p.stop)
}

// ordered is the status of the providers in their order.
func ordered(t *health.Tracker) []health.Status {
	now := time.Now()
	all := t.Snapshot(now)
	order := t.Order(now, configured)
	slices.SortStableFunc(all, func(a, b health.Status) int { return slices.Index(order, a.Provider) - slices.Index(order, b.Provider) })
	return all
}

// sidecar is a client with a tracker that follows it.
type sidecar struct {
	*Client
	tracker *health.Tracker
	mu      sync.Mutex
	views   []View
	stop    func()
	log     *proctest.Output
}

func (p *plane) sidecar(node string, secure func() *tls.Config) *sidecar {
	p.t.Helper()
	s := &sidecar{tracker: health.NewTracker(health.Options{}, configured...), log: &proctest.Output{}}
	s.Client = NewClient(ClientOptions{
		Node: node, Version: "test", Address: p.address, Secure: secure, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Viewed: func(v View) {
			s.mu.Lock()
			s.views = append(s.views, v) // first, so that it is there when its effect shows
			s.mu.Unlock()
			s.tracker.Follow(time.Now(), v.Providers, s.Client)
		},
		Granted: s.tracker.Grant, Revoke: s.tracker.Revoke,
		Disconnected: func() { s.tracker.Alone(time.Now()) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	s.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	p.t.Cleanup(s.stop)
	return s
}

func (s *sidecar) heard() []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.views)
}

func (s *sidecar) first() policy.ProviderID { return s.tracker.Order(time.Now(), configured)[0] }

// fail reports n failed requests to provider a.
func (s *sidecar) fail(n int) {
	for range n {
		r := health.Result{Provider: "a", Kind: health.Failure}
		s.tracker.Report(time.Now(), r)
		s.Report(r)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	polltest.Until(t, what, ok)
}

func TestWhatOneSidecarSeesMovesTheOrderOfTheOthers(t *testing.T) {
	p := newPlane(t)
	one, two := p.sidecar("gw-1", nil), p.sidecar("gw-2", nil)
	eventually(t, "both", func() bool { return one.Connected() && two.Connected() && p.Connected() == 2 })
	one.fail(3)
	two.fail(2) // five in a row, of which neither saw all
	eventually(t, "the new order", func() bool { return one.first() == "b" && two.first() == "b" })
	p.tracker.SetDisabled("b", true)
	eventually(t, "a disabled provider", func() bool { return one.tracker.Disabled("b") && two.tracker.Disabled("b") })
	v := two.heard()[0]
	if v.Secret != "secret-of-gw-2" || !slices.Equal(v.Clusters, configured) || v.Version == "" {
		t.Errorf("heard %+v", v)
	}
}

func TestAnUnchangedOrderIsNotSaidAgain(t *testing.T) {
	p := newPlane(t)
	s := p.sidecar("gw-1", nil)
	eventually(t, "the first view", func() bool { return s.Connected() })
	for range 10 {
		p.Publish(ordered(p.tracker))
		p.Refresh("gw-1")
	}
	p.tracker.SetDisabled("a", true)
	eventually(t, "the change", func() bool { return s.tracker.Disabled("a") })
	if n := len(s.heard()); n != 2 {
		t.Errorf("heard %d views, want the first and the changed one", n)
	}
}

func TestASidecarGoesOnWithoutTheControlPlaneAndResumes(t *testing.T) {
	p := newPlane(t)
	s := p.sidecar("gw-1", nil)
	eventually(t, "the connection", func() bool { return s.Connected() })
	p.tracker.SetDisabled("b", true)
	eventually(t, "the change", func() bool { return s.tracker.Disabled("b") })
	p.stop()
	eventually(t, "the loss", func() bool { return !s.Connected() })
	if !s.tracker.Disabled("b") {
		t.Error("it has forgotten the last word")
	}
	s.fail(5)
	p.start(health.Options{}, nil)
	eventually(t, "what was seen meanwhile", func() bool { return p.tracker.Snapshot(time.Now())[0].State == health.Down && p.Results() == 5 })
	eventually(t, "the new word", func() bool { return !s.tracker.Disabled("b") })
	if s.Dropped() != 0 || p.Results() != 5 {
		t.Errorf("%d were dropped, %d came", s.Dropped(), p.Results())
	}
	if !strings.Contains(s.log.String(), "control plane is away") {
		t.Errorf("the log says %s", s.log)
	}
}

func TestOneOfAllSidecarsTriesAProviderThatIsDown(t *testing.T) {
	p := newPlane(t)
	sidecars := []*sidecar{p.sidecar("gw-1", nil), p.sidecar("gw-2", nil)}
	eventually(t, "both", func() bool { return sidecars[0].Connected() && sidecars[1].Connected() })
	sidecars[0].fail(5)
	eventually(t, "the new order", func() bool { return sidecars[0].first() == "b" && sidecars[1].first() == "b" })
	var tried *sidecar
	var done func()
	eventually(t, "a trial", func() bool {
		for _, s := range sidecars {
			order, d := s.tracker.Plan(time.Now(), configured)
			if order[0] == "a" {
				tried, done = s, d
				return true
			}
			d()
		}
		return false
	})
	for range 50 {
		for _, s := range sidecars {
			if order, d := s.tracker.Plan(time.Now(), configured); order[0] == "a" {
				t.Fatal("two try it at once")
			} else {
				d()
			}
		}
	}
	r := health.Result{Provider: "a", Kind: health.OK}
	tried.tracker.Report(time.Now(), r)
	tried.Report(r)
	done()
	eventually(t, "the way back, for both", func() bool {
		for _, s := range sidecars { // the one that saw it fail checks by itself
			if order, d := s.tracker.Plan(time.Now(), configured); order[0] == "a" {
				s.tracker.Report(time.Now(), r)
				d()
			}
		}
		return sidecars[0].first() == "a" && sidecars[1].first() == "a"
	})
}

func TestATrialIsFreeAgainWhenItsSidecarLeaves(t *testing.T) {
	p := newPlane(t)
	s := p.sidecar("gw-1", nil)
	eventually(t, "the connection", func() bool { return s.Connected() })
	s.fail(5)
	eventually(t, "a trial", func() bool {
		order, done := s.tracker.Plan(time.Now(), configured)
		if order[0] != "a" {
			done()
		}
		return order[0] == "a"
	})
	if _, ok := p.tracker.Claim(time.Now(), "a"); ok {
		t.Fatal("the trial was not taken")
	}
	s.stop()
	eventually(t, "a free trial", func() bool {
		_, ok := p.tracker.Claim(time.Now(), "a")
		return ok
	})
}

func TestPingsCountBySource(t *testing.T) {
	p := newPlane(t)
	one, two := p.sidecar("gw-1", nil), p.sidecar("gw-2", nil)
	two.Ping("a", nil)
	eventually(t, "a good ping", func() bool { return p.Results() == 1 })
	for range 3 {
		one.Ping("a", errors.New("refused"))
	}
	eventually(t, "bad pings", func() bool { return p.Results() == 4 })
	if s := p.tracker.Snapshot(time.Now())[0]; s.State == health.Down {
		t.Errorf("one machine's trouble is everybody's: %+v", s)
	}
	two.stop()
	eventually(t, "the other to leave", func() bool { return p.Connected() == 1 })
	one.Ping("a", errors.New("refused"))
	eventually(t, "the provider out of favour", func() bool { return p.tracker.Snapshot(time.Now())[0].State == health.Down })
}

// raw opens a stream and sends a report.
func (p *plane) raw(report *feedpb.Report) error {
	conn, err := grpc.NewClient("unix://"+p.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), polltest.Patience)
	defer cancel()
	stream, err := feedpb.NewFeedClient(conn).Connect(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(report); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func TestWhoIsRefused(t *testing.T) {
	p := newPlane(t)
	for name, tt := range map[string]struct {
		report *feedpb.Report
		want   string
	}{
		"one that does not say who it is": {&feedpb.Report{Dropped: 1}, "hello"},
		"one without a name":              {&feedpb.Report{Hello: &feedpb.Hello{}}, "name"},
		"one whose name is no name":       {&feedpb.Report{Hello: &feedpb.Hello{Node: "a\nb"}}, "name"},
	} {
		if err := p.raw(tt.report); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_ = p.raw(&feedpb.Report{Dropped: 1})
	if n := strings.Count(p.log.String(), "did not begin with a hello"); n != 1 {
		t.Errorf("the same refusal was logged %d times", n)
	}
	for i := range 3 {
		s := p.sidecar(fmt.Sprint("gw-", i), nil)
		eventually(t, "a sidecar", s.Connected)
	}
	if err := p.raw(&feedpb.Report{Hello: &feedpb.Hello{Node: "gw-3"}}); err == nil || !strings.Contains(err.Error(), "3 nodes") {
		t.Errorf("one too many: %v", err)
	}
}

func TestANodeThatConnectsAgainTakesItsPlace(t *testing.T) {
	p := newPlane(t)
	old := p.sidecar("gw-1", nil)
	eventually(t, "the old one", old.Connected)
	if err := p.raw(&feedpb.Report{Hello: &feedpb.Hello{Node: "gw-1"}}); err != nil {
		t.Errorf("the new one: %v", err)
	}
	eventually(t, "the old one's loss", func() bool { return strings.Contains(old.log.String(), "connected again") })
	eventually(t, "the old one again, alone", func() bool { return old.Connected() && p.Connected() == 1 })
}

func TestASidecarSpeaksForItsOwnNodeOnly(t *testing.T) {
	ca, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	identity := func(name string) *mtls.Identity {
		f, err := ca.Write(t.TempDir(), name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		i, err := mtls.Load(f, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	p := &plane{t: t, address: "127.0.0.1:0"}
	p.start(health.Options{}, identity("control-plane").Server(nil))
	own := identity("gw-1")
	secure := func() *tls.Config { return own.Client("control-plane") }
	eventually(t, "its own name", p.sidecar("gw-1", secure).Connected)
	thief := p.sidecar("gw-2", secure)
	eventually(t, "the refusal, on both sides", func() bool {
		return strings.Contains(thief.log.String(), `not for \"gw-2\"`) && strings.Contains(p.log.String(), `not for \"gw-2\"`)
	})
	if len(thief.heard()) != 0 {
		t.Error("another node's secret was told")
	}
	misled := p.sidecar("gw-1", func() *tls.Config { return own.Client("another-plane") })
	eventually(t, "a server by another name to be left", func() bool { return strings.Contains(misled.log.String(), "not another-plane") })
}

func TestTheQueueIsBounded(t *testing.T) {
	q, now := newQueue(), time.Now()
	for i := range queueSize + 10 {
		q.result(now, health.Result{Provider: policy.ProviderID(fmt.Sprint(i))})
	}
	for range maxPings + 5 {
		q.ping("a", nil)
	}
	q.requestTrial("a")
	q.requestTrial("a")
	r, more := q.take(now)
	if len(r.GetResults()) != batchSize || !more || r.GetResults()[0].GetProvider() != "10" || len(r.GetPings()) != maxPings || len(r.GetWanted()) != 1 {
		t.Errorf("the first report has %d results from %s on, %d pings, wants %v", len(r.GetResults()), r.GetResults()[0].GetProvider(), len(r.GetPings()), r.GetWanted())
	}
	total := len(r.GetResults())
	for more {
		r, more = q.take(now)
		total += len(r.GetResults())
	}
	if total != queueSize || r.GetDropped() != 15 {
		t.Errorf("%d results came, %d were dropped", total, r.GetDropped())
	}
}

func TestOldResultsAreNotNews(t *testing.T) {
	q, now := newQueue(), time.Now()
	q.result(now.Add(-time.Hour), health.Result{Provider: "old"})
	q.result(now, health.Result{Provider: "new"})
	if r, _ := q.take(now); len(r.GetResults()) != 1 || r.GetResults()[0].GetProvider() != "new" || r.GetDropped() != 1 {
		t.Errorf("reported %v", r)
	}
}

func TestWhatIsSaidIsWhatIsHeard(t *testing.T) {
	now := time.Now()
	v := View{Secret: "s", Clusters: configured}
	for state := range states {
		v.Providers = append(v.Providers, health.Status{Provider: policy.ProviderID(state), State: state, Reason: "why " + string(state)})
	}
	v.Providers = append(v.Providers, health.Status{Provider: "cool", State: health.Degraded, CoolUntil: now.Add(time.Minute)})
	got := decode(now, encode(now, v))
	for i, s := range got.Providers {
		want := v.Providers[i]
		if d := s.CoolUntil.Sub(want.CoolUntil); d < -time.Second || d > time.Second {
			t.Errorf("%s cools until %v, want %v", s.Provider, s.CoolUntil, want.CoolUntil)
		}
		if s.CoolUntil = want.CoolUntil; s != want {
			t.Errorf("%+v became %+v", want, s)
		}
	}
	later := encode(now.Add(time.Second), v)
	if got.Version != later.GetVersion() {
		t.Error("time alone makes another version")
	}
	for _, want := range []error{nil, errPing, &health.Unreached{Reason: "no connection: connection refused"}, &health.Refusal{Status: 401, Reason: "unknown key"}} {
		got := decodePing(encodePing("a", want))
		if said, ok := errors.AsType[*health.Refusal](want); ok {
			heard, ok := errors.AsType[*health.Refusal](got)
			if !ok || *heard != *said {
				t.Errorf("%v became %v", want, got)
			}
		} else if said, ok := errors.AsType[*health.Unreached](want); ok {
			heard, ok := errors.AsType[*health.Unreached](got)
			if !ok || *heard != *said {
				t.Errorf("%v became %v", want, got)
			}
		} else if !errors.Is(got, want) {
			t.Errorf("%v became %v", want, got)
		}
	}
	for kind := range kinds {
		r := health.Result{Provider: "a", Kind: kind, RetryAfter: time.Second, Latency: 5 * time.Millisecond, Reason: "why"}
		if got := decodeResult(encodeResult(r)); got != r {
			t.Errorf("%+v became %+v", r, got)
		}
	}
}

// FuzzReport: after any report of a sidecar, the control plane keeps working.
func FuzzReport(f *testing.F) {
	raw, err := proto.Marshal(&feedpb.Report{
		Results: []*feedpb.Result{{Provider: "a", Kind: feedpb.Result_RATE_LIMITED, RetryAfterMs: 1 << 31}}, Pings: []*feedpb.Ping{{Provider: "b", Error: "x"}},
		Wanted: []string{"a", "ghost"}, Returned: []string{"a"},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &feedpb.Report{}
		if proto.Unmarshal(b, r) != nil {
			return
		}
		tracker := health.NewTracker(health.Options{}, configured...)
		s := NewServer(ServerOptions{Tracker: tracker, Log: slog.New(slog.DiscardHandler)})
		one, err := s.admit("gw-1", "")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.take(one, r)
		}
		s.disconnected(one)
		if n := len(tracker.Order(time.Now(), configured)); n != len(configured) {
			t.Errorf("%d providers are left", n)
		}
	})
}

// FuzzView: after any view of a control plane, the sidecar keeps every provider that is not disabled.
func FuzzView(f *testing.F) {
	raw, err := proto.Marshal(encode(time.Now(), View{Providers: []health.Status{{Provider: "a", State: health.Down, Reason: "x"}}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		v := &feedpb.View{}
		if proto.Unmarshal(b, v) != nil {
			return
		}
		tracker := health.NewTracker(health.Options{}, configured...)
		tracker.Follow(time.Now(), decode(time.Now(), v).Providers, NewClient(ClientOptions{}))
		on := 0
		for _, p := range configured {
			if !tracker.Disabled(p) {
				on++
			}
		}
		if n := len(tracker.Order(time.Now(), configured)); n != on {
			t.Errorf("%d providers of %d are in the order", n, on)
		}
	})
}
