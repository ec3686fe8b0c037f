package payclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/seedtest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay/outgoing"
)

// TestPitfall13And14BardoPayAndARogueServer: `bardo pay proxy` and `bardo pay` before a server that wants anything and answers anything, with flags that change from process to process, of which some are killed, and
// clients that leave. Nothing is paid beyond the flags of the process that sends it, or beyond a wallet's day, or twice for one request; each payment is in the book before it leaves, and is shown; a client
// has the server's answer unchanged, or is told an error; the wallet's key is nowhere. BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestPitfall13And14BardoPayAndARogueServer(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			p := startPurse(t, rand.New(rand.NewPCG(seed, 15)))
			for round := range 120 {
				p.round(round)
			}
			p.stop()
			p.close()
		})
	}
}

// purse is somebody who pays a vendor by the commands.
type purse struct {
	*testing.T
	v    *vendor
	home string
	cmd  *exec.Cmd // the proxy that runs
	base string    // its address, with the secret part
	said *proctest.Output
	logs []*proctest.Output
	next int // exchange
}

func startPurse(t *testing.T, random *rand.Rand) *purse {
	t.Helper()
	p := &purse{T: t, home: t.TempDir()}
	book, err := outgoing.OpenBook(t.Context(), filepath.Join(p.home, "outgoing.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close() })
	p.v = startVendor(t, random, book)
	p.start()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

// allow draws the flags of the next process.
func (p *purse) allow() (flags []string) {
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	r := p.v.random
	now := &p.v.now
	now.process++
	now.wallet, now.most, now.upTo = r.IntN(len(walletKeys)), oneOf[policy.Micro](r, 1500, 2000), r.IntN(2) == 0
	now.payees = oneOf(r, payees[:1], payees, payees[1:])
	flags = []string{"--network", "base-sepolia", "--asset", token.Address.String(), "--max-usd", now.most.String(), "--max-usd-day", mostADay.String(), "--pay-to", strings.Join(now.payees, ","), "--timeout", "1m"}
	if now.upTo {
		flags = append(flags, "--scheme", "exact,upto")
	}
	if r.IntN(4) > 0 {
		flags = append(flags, "--rpc", p.v.URL+"/node")
	}
	return flags
}

// command is the command with a wallet's key.
func (p *purse) command(args ...string) *exec.Cmd {
	p.Helper()
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	cmd := exec.CommandContext(context.WithoutCancel(p.Context()), self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "BARDO_HOME="+p.home, "BARDO_PAY_KEY=", "BARDO_PAY_RPC=")
	key := walletKeys[p.v.now.wallet]
	if p.v.random.IntN(2) == 0 {
		cmd.Env = append(cmd.Env, "BARDO_PAY_KEY=0x"+key)
		return cmd
	}
	file := filepath.Join(p.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		p.Fatal(err)
	}
	cmd.Args = append(cmd.Args, "--key-file", file)
	return cmd
}

// start starts the proxy with other flags.
func (p *purse) start() {
	p.Helper()
	cmd := p.command(append([]string{"proxy", p.v.URL + "/base"}, p.allow()...)...)
	p.said = &proctest.Output{}
	p.logs = append(p.logs, p.said)
	cmd.Stderr = p.said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = proctest.Start(cmd, syscall.SIGKILL)
	}
	if err != nil {
		p.Fatal(err)
	}
	p.cmd = cmd
	s := bufio.NewScanner(out)
	for s.Scan() {
		at, ok := strings.CutPrefix(s.Text(), "ANTHROPIC_BASE_URL=")
		if !ok {
			continue
		}
		u, err := url.Parse(at)
		if err != nil || !net.ParseIP(u.Hostname()).IsLoopback() || len(u.Path) < 20 {
			p.Fatalf("the proxy listens at %q, %v", at, err)
		}
		p.base = at
		return
	}
	p.Fatalf("the proxy does not start: %s", p.said)
}

// stop ends the proxy, which has shown each payment that it sent.
func (p *purse) stop() {
	p.Helper()
	p.v.mu.Lock()
	process := fmt.Sprint(p.v.now.process)
	p.v.mu.Unlock()
	p.isShown(process, p.said.String)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("%v: %s", err, p.said)
	}
}

// isShown waits until a process has said something of each payment that it sent.
func (p *purse) isShown(process string, said func() string) {
	p.Helper()
	polltest.Until(p.T, "each payment of process "+process+" is shown", func() bool {
		p.v.mu.Lock()
		defer p.v.mu.Unlock()
		sent, shown := 0, 0
		for _, b := range p.v.bills {
			if b.process == process {
				sent++
			}
		}
		for line := range strings.Lines(said()) {
			if strings.HasPrefix(line, "paid: ") || strings.HasPrefix(line, "signed: ") {
				shown++
			}
		}
		return shown >= sent
	})
}

// exchange is one request of a client's.
type exchange struct {
	id, process    string
	method, path   string
	body           []byte
	leaves         time.Duration // after which the client goes away; 0: it stays
	strange, plain bool          // without the secret part; by `bardo pay`
}

// round sends some requests at the same time, now and then after a restart.
func (p *purse) round(number int) {
	p.Helper()
	all, how := p.plan(number)
	if how == "restart" {
		p.stop()
		p.start()
		for i := range all {
			all[i].process = fmt.Sprint(p.v.now.process) // nothing runs that changes it
		}
	}
	var sent sync.WaitGroup
	for i := range all {
		sent.Go(func() { p.ask(&all[i], how == "kill") })
	}
	if how == "kill" {
		if err := p.cmd.Process.Kill(); err != nil {
			p.Error(err)
		}
		_ = p.cmd.Wait() // killed
	}
	sent.Wait()
	if how == "kill" {
		p.start()
	}
}

// plan draws what a round does.
func (p *purse) plan(number int) (all []exchange, how string) {
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	r := p.v.random
	switch r.IntN(16) {
	case 0:
		how = "restart"
	case 1:
		how = "kill"
	}
	for range 1 + r.IntN(4)*r.IntN(2) {
		p.next++
		e := exchange{id: fmt.Sprint(p.next), process: fmt.Sprint(p.v.now.process), method: oneOf(r, "POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "PATCH")}
		e.path = fmt.Sprintf("/v1/chat/%d", r.IntN(number/3+2)) + oneOf(r, "", "", "?a=b&c=%20", "/a%2Fb", "//c", "/%e2%82%ac", "/..", "/./x", "?", "/a;b=c")
		if e.method != "GET" && e.method != "HEAD" {
			e.body = bytes.Repeat([]byte(oneOf(r, "x", "{}", "\x00")), oneOf(r, 0, 1, 3, 3, 100_000))
		}
		switch r.IntN(12) {
		case 0:
			e.leaves = time.Duration(1+r.IntN(20)) * time.Millisecond
		case 1:
			e.strange = true
		case 2:
			e.plain = how == "" && e.method != "HEAD"
		}
		all = append(all, e)
	}
	return all, how
}

// ask sends a request, and looks at its answer.
func (p *purse) ask(e *exchange, killed bool) {
	if e.plain {
		p.run(e)
		return
	}
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	if e.leaves > 0 {
		ctx, cancel = context.WithTimeout(ctx, e.leaves)
		defer cancel()
	}
	base := p.base
	if e.strange {
		base = base[:strings.LastIndex(base, "/")] + []string{"", "/" + strings.Repeat("A", 26), "/v1"}[len(e.path)%3]
	}
	req, err := http.NewRequestWithContext(ctx, e.method, base+e.path, bytes.NewReader(e.body))
	if err != nil {
		p.Error(err)
		return
	}
	for name, value := range map[string]string{
		"X-Exchange": e.id, "X-Process": e.process, "X-Body": fmt.Sprint(len(e.body)), "Authorization": "Bearer sk-of-another-server", "X-Api-Key": "x402", "Cookie": "a=b", "X-Payment": "e30=", "X-Goog-Api-Key": "k",
	} {
		req.Header.Set(name, value)
	}
	one := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got := reply{}
	resp, err := one.Do(req)
	if got.err = err; err == nil {
		got.status, got.header = resp.StatusCode, resp.Header
		got.body, got.err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		got.trailer = resp.Trailer.Get("X-Trailer")
	}
	if ctx.Err() != nil && e.leaves == 0 {
		p.Errorf("%s %s hangs: %v", e.method, e.path, got.err)
	}
	if e.leaves == 0 && !killed {
		p.compare(e, &got)
	}
}

// reply is what a client has got.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	trailer string
	err     error
}

// own reports whether an answer is the proxy's own: an error that says something.
func (g *reply) own() bool {
	var m struct {
		Error struct{ Type, Message string }
	}
	return g.err == nil && json.Unmarshal(g.body, &m) == nil && m.Error.Type == marker && m.Error.Message != "" && slices.Contains([]int{400, 404, 502}, g.status)
}

// compare compares what a client has got with what the vendor has answered.
func (p *purse) compare(e *exchange, g *reply) {
	p.Helper()
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	p.v.noSecret("an answer", string(g.body))
	t, came := p.v.answers[e.id]
	switch own := g.own() || e.method == http.MethodHead && g.status == http.StatusBadGateway; {
	case e.strange:
		if came || g.status != http.StatusNotFound && g.err == nil { // it may be refused before its body is read, and the connection closed
			p.Errorf("without the secret part: %d, and the server was asked: %v", g.status, came)
		}
	case t == nil || t.bad || t.status == http.StatusPaymentRequired && !t.paid:
		if !own {
			p.Errorf("%s %s was not answered, and the client has %d %.200q, %v", e.method, e.path, g.status, g.body, g.err)
		}
	case t.cut && e.method != http.MethodHead:
		if g.err == nil || !bytes.HasPrefix(t.body, g.body) {
			p.Errorf("%s %s was cut off, and the client has %d with %d of %d bytes, %v", e.method, e.path, g.status, len(g.body), len(t.body), g.err)
		}
	case t.cut:
	default:
		p.same(e, g, t)
	}
	if want := "/base" + e.path; came && p.v.paths[e.id] != want && p.v.paths[e.id]+"?" != want {
		p.Errorf("%s went to %s", want, p.v.paths[e.id])
	}
}

// same makes sure that an answer was not changed on its way.
func (p *purse) same(e *exchange, g *reply, t *answer) {
	p.Helper()
	switch head := e.method == http.MethodHead; {
	case g.err != nil || g.status != t.status:
		p.Errorf("%s %s: %d %.300q, %v, and the server said %d", e.method, e.path, g.status, g.body, g.err, t.status)
	case !head && (!bytes.Equal(g.body, t.body) || g.trailer != t.trailer):
		p.Errorf("%s %s: %d bytes and %q, and the server said %d and %q", e.method, e.path, len(g.body), g.trailer, len(t.body), t.trailer)
	}
	for name, want := range t.header {
		if !reflect.DeepEqual(g.header[name], want) {
			p.Errorf("%s: %.100q, want %.100q", name, g.header[name], want)
		}
	}
}

// run sends a request by `bardo pay`.
func (p *purse) run(e *exchange) {
	p.Helper()
	p.v.mu.Lock()
	now := p.v.now
	p.v.mu.Unlock()
	cmd := p.command("-X", e.method, p.v.URL+"/base"+e.path, "--network", "base-sepolia", "--asset", token.Address.String(), "--max-usd", now.most.String(), "--max-usd-day", mostADay.String(),
		"--pay-to", strings.Join(now.payees, ","), "--data", "@-", "-H", "X-Exchange: "+e.id, "-H", "X-Process: alone "+e.id, "-H", fmt.Sprint("X-Body: ", len(e.body)), "--timeout", "1m")
	var out bytes.Buffer
	said := &proctest.Output{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(e.body), &out, said
	err := cmd.Run()
	p.isShown("alone "+e.id, said.String)
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	p.logs = append(p.logs, said)
	t := p.v.answers[e.id]
	switch {
	case t == nil || t.bad || t.status == http.StatusPaymentRequired && !t.paid:
		if err == nil || out.Len() > 0 || !strings.Contains(said.String(), "bardo: ") {
			p.Errorf("`bardo pay` was not answered, and says %q %s, %v", out.String(), said, err)
		}
	case t.cut:
		if err == nil || !bytes.HasPrefix(t.body, out.Bytes()) {
			p.Errorf("`bardo pay` was cut off: %d of %d bytes, %s", out.Len(), len(t.body), said)
		}
	case !bytes.Equal(out.Bytes(), t.body) || (err == nil) != (t.status/100 == 2):
		p.Errorf("`bardo pay` has %d bytes, %v, and the server said %d with %d: %s", out.Len(), err, t.status, len(t.body), said)
	}
}

// close compares the book with what the vendor was sent, and looks for what must be nowhere.
func (p *purse) close() {
	p.Helper()
	all := p.list()
	p.v.mu.Lock()
	defer p.v.mu.Unlock()
	if len(p.v.bills) < 10 {
		p.Errorf("only %d payments were sent", len(p.v.bills))
	}
	listed := map[string]view{}
	for _, a := range all {
		listed[a.Nonce] = a
	}
	for nonce, b := range p.v.bills {
		a, ok := listed[nonce.String()]
		switch {
		case !ok || a.Amount != b.Value || a.PayTo != b.To.String():
			p.Errorf("it left, and is listed as %+v: %+v", a, b)
		case a.State == outgoing.Answered && !b.served, a.State == outgoing.Used && !b.taken, a.State == outgoing.Unused && b.taken:
			p.Errorf("it is %s: served %v, taken %v", a.State, b.served, b.taken)
		}
		if strings.ContainsFunc(a.Reason+a.Transaction, func(c rune) bool { return c < ' ' || c > '~' }) {
			p.Errorf("what a person is shown has %q %q", a.Reason, a.Transaction)
		}
	}
	for _, said := range p.logs {
		p.v.noSecret("what is shown", said.String())
		if strings.ContainsFunc(said.String(), func(c rune) bool { return c < ' ' && c != '\n' }) {
			p.Errorf("what is shown has control characters: %q", said)
		}
	}
	p.checkFiles()
}

// list is what `bardo pay list` has.
func (p *purse) list() (all []view) {
	p.Helper()
	cmd := p.command()
	cmd.Args = []string{cmd.Args[0], "list", "--json", "--limit", "100000"}
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		p.Fatalf("%v: %s", err, out)
	}
	return all
}

// checkFiles makes sure that the state directory is its user's alone, and has no key.
func (p *purse) checkFiles() {
	p.Helper()
	err := filepath.WalkDir(p.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm() != 0o600 {
			p.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		text, err := os.ReadFile(path)
		p.v.noSecret(path, string(text))
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Error(err)
	}
}
