package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

const mib = 1 << 20

// patient has the time-outs of ordinary use: only what a test does may end a stream.
const patient = "limits: {rpm: 0}\n"

// bothWays is a gateway with two models: "backed", which two providers have, and "alone", which one
// of them has.
func bothWays(t *testing.T, b fake.Behaviour) (g *gateway.Gateway, p *fake.Server) {
	t.Helper()
	p = fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
	p.Behave(b)
	return gateway.Run(t, gateway.Options{Config: patient, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: append(models("backed", ""), models("alone", "")...)},
		{ID: "other", Fake: other, Models: models("backed", "")},
	}}), p
}

// footprint is what a gateway takes of the machine.
type footprint struct {
	bardoMemory, envoyMemory           int64
	bardoDescriptors, envoyDescriptors int
	goroutines                         int
}

func (f footprint) String() string {
	return fmt.Sprintf("bardo %d MiB, %d descriptors, %d goroutines; envoy %d MiB, %d descriptors",
		f.bardoMemory/mib, f.bardoDescriptors, f.goroutines, f.envoyMemory/mib, f.envoyDescriptors)
}

func measure(t testing.TB, g *gateway.Gateway) footprint {
	t.Helper()
	b, e := process(g.PID()), envoyOf(t, g)
	return footprint{
		bardoMemory: b.memory(t), envoyMemory: e.memory(t), bardoDescriptors: b.descriptors(t), envoyDescriptors: e.descriptors(t),
		goroutines: int(g.Metrics(t).Sum("go_goroutines")),
	}
}

// settled waits until no request is left anywhere in the gateway: not in its metrics, and no goroutine that serves one.
func settled(t testing.TB, g *gateway.Gateway) footprint {
	t.Helper()
	eventually(t, "an idle gateway", func() bool {
		m := g.Metrics(t)
		return m.Sum("bardo_active_exchanges") == 0 && m.Sum("bardo_holds") == 0
	})
	eventually(t, "the end of every goroutine that served a request", func() bool {
		return !serving(profile(t, g, "goroutine?debug=1"))
	})
	return measure(t, g)
}

// serving reports whether any of these goroutines serves a request or reads an answer.
func serving(stacks string) bool {
	for _, frame := range []string{"extproc.(*Gateway).Serve", "processor.(*service).", "module.(*client).Serve", "attempt.(*call).", "attempt.(*Writer)."} {
		if strings.Contains(stacks, frame) {
			return true
		}
	}
	return false
}

// pprofOf is where the profiles of the program are that serves requests.
func pprofOf(g *gateway.Gateway) string {
	if g.InEnvoy {
		return "/debug/envoy/pprof/"
	}
	return "/debug/pprof/"
}

func profile(t testing.TB, g *gateway.Gateway, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Admin+pprofOf(g)+name, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// allAtOnce runs n streams at the same time, turn by turn on either path, and returns what went wrong.
func allAtOnce(t testing.TB, g *gateway.Gateway, n int, want string) (failed []string) {
	t.Helper()
	var wait sync.WaitGroup
	results := make(chan string, n)
	for i := range n {
		wait.Go(func() {
			a := ask{dialect: fake.OpenAI, model: []string{"backed", "alone"}[i%2], stream: true}
			if err := readWhole(t.Context(), g, a, want); err != nil {
				results <- fmt.Sprintf("%s: %v", a.model, err)
			}
		})
	}
	wait.Wait()
	close(results)
	for r := range results {
		failed = append(failed, r)
	}
	return failed
}

// readWhole reads a stream to its end, which must come after that text.
func readWhole(ctx context.Context, g *gateway.Gateway, a ask, want string) error {
	res, err := g.Open(ctx, a.call())
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		return fmt.Errorf("%d %.2000s", res.StatusCode, body)
	}
	return nil
}

// TestFiveHundredStreams at once for a while, none of which fails; then nothing is left of them, and as many again take no more
// than the first ones did. BARDO_SOAK=1 makes it longer.
func TestFiveHundredStreams(t *testing.T) {
	t.Parallel()
	const streams, gap = 500, 200 * time.Millisecond
	tokens := 40
	if os.Getenv("BARDO_SOAK") != "" {
		tokens = 150
	}
	g, p := bothWays(t, fake.Behaviour{Tokens: 3})
	if failed := allAtOnce(t, g, 20, "tok2"); len(failed) > 0 {
		t.Fatal(failed)
	}
	base := settled(t, g)
	p.Behave(fake.Behaviour{Tokens: tokens, Gap: gap})
	began := time.Now()
	if failed := allAtOnce(t, g, streams, fmt.Sprintf("tok%d ", tokens-1)); len(failed) > 0 {
		t.Errorf("%d of %d streams failed, the first: %s", len(failed), streams, failed[0])
	}
	t.Logf("%d streams of %s took %s", streams, time.Duration(tokens-1)*gap, time.Since(began))
	first := settled(t, g)
	p.Behave(fake.Behaviour{Tokens: 5, Gap: gap})
	if failed := allAtOnce(t, g, streams, "tok4 "); len(failed) > 0 {
		t.Errorf("%d of %d short streams failed, the first: %s", len(failed), streams, failed[0])
	}
	second := settled(t, g)
	t.Logf("\nbefore  %s\nonce    %s\ntwice   %s", base, first, second)
	// Connections to the egress listener and to providers are kept for later, each with a descriptor and two goroutines. Each connection of Envoy's keeps
	// the coroutines of a batch.
	kept, coroutines := streams, 16*runtime.NumCPU()
	if first.goroutines > base.goroutines+2*kept+coroutines+20 || first.bardoDescriptors > base.bardoDescriptors+kept+20 {
		t.Errorf("more is left than the connections that are kept: %s", first)
	}
	if second.goroutines > first.goroutines+50 || second.bardoDescriptors > first.bardoDescriptors+50 ||
		second.envoyDescriptors > first.envoyDescriptors+100 {
		t.Errorf("the second time took more than the first: %s", second)
	}
	if second.bardoMemory > first.bardoMemory*3/2+16*mib || second.envoyMemory > first.envoyMemory*3/2+16*mib {
		t.Errorf("the second time took more memory than the first: %s", second)
	}
	g.AssertSound(t)
}

// live is what the program itself still holds on its heap, in bytes: what its collector found no use for is gone.
func live(t testing.TB, g *gateway.Gateway) int64 {
	t.Helper()
	profile(t, g, "heap?gc=1")
	profile(t, g, "heap?gc=1") // what a first collection's finalizers and pools let go of
	return int64(g.Metrics(t).Sum("go_memstats_heap_alloc_bytes"))
}

// wave runs n streams at the same time, turn by turn of either dialect and on either path, each with a prompt of its own.
func wave(t testing.TB, g *gateway.Gateway, n int, name, want string) {
	t.Helper()
	asks := append(everyKind("backed"), everyKind("alone")...)
	asks = slices.DeleteFunc(asks, func(a ask) bool { return !a.stream })
	var wait sync.WaitGroup
	for i := range n {
		a := asks[i%len(asks)]
		a.say = fmt.Sprint(name, " ", i)
		wait.Go(func() {
			res, err := g.Open(t.Context(), a.call())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), want) {
				t.Errorf("%s %s: %d %v %.500s", a.dialect, a.model, res.StatusCode, err, body)
			}
		})
	}
	wait.Wait()
}

// TestAnIdleGatewayTakesLessThan80MB without local models, with the pages of the program's file that it has mapped.
func TestAnIdleGatewayTakesLessThan80MB(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: "models: {embedding: \"off\", injection: \"off\"}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	polltest.Until(t, "80 MB", func() bool { return process(g.PID()).memory(t) < 80e6 })
}

// TestK36MemoryReturnsAfterTenThousandStreams: what both processes take returns to what it was before them, and nothing of a stream
// stays on the program's own heap. It runs 1,600 of them, all 10,000 with BARDO_SOAK=1.
func TestK36MemoryReturnsAfterTenThousandStreams(t *testing.T) {
	t.Parallel()
	const atOnce, perStream = 200, 2 << 10
	streams := 1_600
	if os.Getenv("BARDO_SOAK") != "" {
		streams = 10_000
	}
	g, p := bothWays(t, fake.Behaviour{Tokens: 20})
	for i := range 3 { // until every pool and every connection that is kept is there
		wave(t, g, atOnce, fmt.Sprint("before ", i), "tok19 ")
		p.Forget()
	}
	settled(t, g)
	held, base := live(t, g), measure(t, g)
	for done := 0; done < streams; done += atOnce {
		wave(t, g, atOnce, fmt.Sprint("wave ", done), "tok19 ")
		p.Forget()
	}
	settled(t, g)
	var holds int64
	var after footprint
	// Go gives memory back to the system little by little, and some of it stays; what is alive says more.
	polltest.Until(t, "the memory of before", func() bool {
		holds, after = live(t, g), measure(t, g)
		return after.bardoMemory <= base.bardoMemory*3/2+64*mib && after.envoyMemory <= base.envoyMemory*3/2+64*mib
	})
	t.Logf("\nbefore %d streams  %s, %d KiB live\nafter  %s, %d KiB live", streams, base, held>>10, after, holds>>10)
	if holds > held+int64(streams)*perStream {
		t.Errorf("%d streams left %d bytes on the heap", streams, holds-held)
	}
	// Connections are kept for later, as many as there were streams at once.
	if after.goroutines > base.goroutines+2*atOnce+50 || after.bardoDescriptors > base.bardoDescriptors+atOnce+50 || after.envoyDescriptors > base.envoyDescriptors+2*atOnce {
		t.Errorf("before %d streams %s, after %s", streams, base, after)
	}
}

// TestK36MemoryAfterManyStreams: thousands of short requests of every kind leave the memory as a few hundred left it.
func TestK36MemoryAfterManyStreams(t *testing.T) {
	t.Parallel()
	rounds := 3
	if os.Getenv("BARDO_SOAK") != "" {
		rounds = 20
	}
	g, p := bothWays(t, fake.Behaviour{Tokens: 5})
	load := startClients(t, g, 16, append(everyKind("backed"), everyKind("alone")...)...)
	round := func() footprint {
		load.more(t, 500)
		p.Forget()
		return measure(t, g)
	}
	round()
	warm := round()
	var after footprint
	for range rounds {
		after = round()
	}
	load.stop(t)
	t.Logf("\n1,000 calls  %s\n%d calls  %s", warm, load.calls.Load(), after)
	if after.bardoMemory > warm.bardoMemory*5/4+16*mib || after.envoyMemory > warm.envoyMemory*5/4+16*mib {
		t.Errorf("after 1,000 calls %s, after %d %s", warm, load.calls.Load(), after)
	}
	settled(t, g)
}

// TestClientsThatLeave at any moment of a request: before its answer, in the middle, near the end.
func TestClientsThatLeave(t *testing.T) {
	t.Parallel()
	const clients = 200
	g, p := bothWays(t, fake.Behaviour{Tokens: 3})
	if failed := allAtOnce(t, g, 20, "tok2"); len(failed) > 0 {
		t.Fatal(failed)
	}
	base := settled(t, g)
	p.Forget()
	p.Behave(fake.Behaviour{FirstToken: 100 * time.Millisecond, Tokens: 2000, Gap: 20 * time.Millisecond}) // far longer than anyone stays
	asks := append(everyKind("backed"), everyKind("alone")...)
	for range 2 { // in two waves, to the second of which the first one's connections are of use
		var wait sync.WaitGroup
		for i := range clients / 2 {
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), rand.N(500*time.Millisecond))
				defer cancel()
				a := asks[i%len(asks)]
				if err := readWhole(ctx, g, a, "never"); a.stream && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a client that left saw %.300v", err)
				}
			})
		}
		wait.Wait()
	}
	asked := len(p.Generations())
	if asked < clients/4 {
		t.Errorf("only %d requests reached the provider", asked)
	}
	if _, err := p.WaitDone(soon(t), asked); err != nil {
		t.Errorf("the provider still answers clients that left: %v", err)
	}
	after := settled(t, g)
	t.Logf("\nbefore  %s\nafter   %s", base, after)
	if after.goroutines > base.goroutines+2*clients/4 || after.bardoDescriptors > base.bardoDescriptors+clients/4 || after.envoyDescriptors > base.envoyDescriptors+clients/2 {
		t.Errorf("before %s, after %s", base, after)
	}
	g.AssertSound(t)
}

// openUnread opens a stream on a connection of its own with small buffers, and reads no more than the head of the answer.
func openUnread(t testing.TB, g *gateway.Gateway, a ask, header string) (body io.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	c := a.call()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n%s\r\n%s", c.Path, g.Key, len(c.Body), header, c.Body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 4<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %s", res.StatusCode, b)
	}
	return res.Body
}

// TestAClientThatDoesNotRead costs no more than the bound on an answer, and then its provider is left alone.
func TestAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	const size, tokens, most = 64 << 10, 4096, 32 * mib // 256 MiB: far more than the bound and all socket buffers on the way
	for _, model := range []string{"alone", "backed"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			g, p := bothWays(t, fake.Behaviour{Tokens: tokens, TokenSize: size})
			before := settled(t, g)
			body := openUnread(t, g, ask{dialect: fake.OpenAI, model: model, stream: true}, "")
			if _, err := p.WaitCancelled(soon(t), 1); err != nil {
				t.Error(err)
			}
			after := settled(t, g)
			t.Logf("\nbefore  %s\nafter   %s", before, after)
			grows := int64(2 * most)
			if g.InEnvoy { // the garbage of a program that collects late is there, too
				grows = 5 * most
			}
			if after.envoyMemory > before.envoyMemory+grows || after.bardoMemory > before.bardoMemory+most {
				t.Errorf("before %s, after %s", before, after)
			}
			got, err := io.ReadAll(body)
			if err != nil || len(got) > most+mib || len(got) < most-mib {
				t.Errorf("then it reads %d bytes, %v", len(got), err)
			}
			checkErrorEvent(t, ask{dialect: fake.OpenAI}, gateway.Answer{Body: string(got)})
		})
	}
}

// TestARequestUnderWayIsSeen: if the profile did not show who serves a request, the check that nobody is left could not fail.
func TestARequestUnderWayIsSeen(t *testing.T) {
	t.Parallel()
	g, p := bothWays(t, fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 1}})
	for _, a := range []ask{{dialect: fake.OpenAI, model: "alone"}, {dialect: fake.OpenAI, model: "backed", stream: true}} {
		p.Forget()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			res, err := g.Open(ctx, a.call())
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}()
		eventually(t, "the request at its provider", func() bool { return len(p.Generations()) == 1 })
		eventually(t, fmt.Sprintf("a profile that shows who serves %+v", a), func() bool { return serving(profile(t, g, "goroutine?debug=1")) })
		cancel()
		<-gone
		settled(t, g)
	}
}

// TestASlowReaderThatClosesAfterwards gets everything, however long it pauses: the end of the connection waits for it.
func TestASlowReaderThatClosesAfterwards(t *testing.T) {
	t.Parallel()
	const size, tokens = 64 << 10, 200
	g, _ := bothWays(t, fake.Behaviour{Tokens: tokens, TokenSize: size})
	for _, model := range []string{"alone", "backed"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			body := openUnread(t, g, ask{dialect: fake.OpenAI, model: model, stream: true}, "Connection: close\r\n")
			<-time.After(700 * time.Millisecond)
			got, err := io.ReadAll(body)
			if err != nil || len(got) < tokens*size || !strings.HasSuffix(string(got), "data: [DONE]\n\n") {
				t.Errorf("it reads %d bytes, %v", len(got), err)
			}
		})
	}
}
