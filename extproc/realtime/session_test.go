package realtime

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"bardo.money/gateway/extproc/upload"
	"bardo.money/gateway/internal/fault"
)

// pipes is a listener for connections within a process, whose writes wait until they are read.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { close(p.done); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// carry copies what one side sends to the other. It reads a few kilobytes ahead, as a network does.
func carry(from, to net.Conn) {
	ahead := make(chan []byte, 16)
	go func() {
		defer func() { _ = to.Close() }()
		for b := range ahead {
			if _, err := to.Write(b); err != nil {
				_ = from.Close()
			}
		}
	}()
	defer close(ahead)
	for {
		b := make([]byte, 4<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		ahead <- b[:n]
	}
}

// connect returns both ends of a WebSocket connection, and a function that breaks it without a close.
func connect(t *testing.T) (server, client *websocket.Conn, breaks func()) {
	t.Helper()
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	accepted := make(chan *websocket.Conn, 1)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	})}
	go func() { _ = srv.Serve(p) }()
	var raw net.Conn
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, near := net.Pipe()
		far, theirs := net.Pipe()
		go carry(near, far)
		go carry(far, near)
		p.conns <- theirs
		raw = ours
		return ours, nil
	}}
	client, _, err := websocket.Dial(t.Context(), "ws://x/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}}) //nolint:bodyclose // the library closes it
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	client.SetReadLimit(2 * MaxMessage)
	server.SetReadLimit(2 * MaxMessage)
	t.Cleanup(func() {
		_, _ = client.CloseNow(), server.CloseNow()
		_ = srv.Close()
		transport.CloseIdleConnections()
	})
	return server, client, func() { _ = raw.Close() }
}

// bank is a Host that counts what is held. Each token is held and charged as one.
type bank struct {
	mu      sync.Mutex
	left    int64 // may be held
	held    map[*turn]Need
	open    int // turns that have not ended
	ended   []string
	unpaid  int // responses without a reservation
	revoked error
}

type turn struct {
	*bank
	owed bool
}

func (b *bank) Inspect(_ context.Context, texts []byte) error {
	if strings.Contains(string(texts), "PRIVATE") {
		return fault.Newf(fault.SecretInPrompt, "a private key")
	}
	return nil
}

func (b *bank) NewTurn() Turn { b.open++; return &turn{bank: b} }

func (b *bank) Check(context.Context) error { return b.revoked }

func (b *bank) Error(f *fault.Fault) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"code":%q,"message":%q}`, f.Kind, f.Public))
}

func (n Need) sum() int64 { return n.Context + min(n.Output, 4096) }

func (b *bank) sum() (n int64) {
	for _, need := range b.held {
		n += need.sum()
	}
	return n
}

func (t *turn) Reserve(_ context.Context, n Need) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, t)
	if t.sum()+n.sum() > t.left {
		t.open--
		return fault.Newf(fault.InsufficientFunds, "no money")
	}
	t.held[t] = n
	return nil
}

func (t *turn) Owe(context.Context, Need) { t.owed = true; t.unpaid++ }
func (t *turn) Begin()                    {}

func (t *turn) Settle(_ context.Context, u *Usage, how Outcome) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = append(t.ended, fmt.Sprintf("%d %d+%d %v", how, u.Text+u.Audio, u.Output, u.Estimated))
	delete(t.held, t)
	t.open--
	return nil
}

func (t *turn) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, t)
	t.open--
}

// lab is a session with both of its peers.
type lab struct {
	*bank
	t                *testing.T
	session          *Session
	client, provider *websocket.Conn // the peers' ends
	breakProvider    func()
	breakClient      func()
	result           chan error
	memory           *upload.Memory // of messages, at most allMessages bytes
}

// allMessages is the memory of all messages together, in bytes; messageTime is how long one may take to arrive.
const (
	allMessages = 3 * MaxMessage
	messageTime = time.Minute
)

func (l *lab) inbox() upload.Body {
	return upload.Body{Memory: l.memory, Limits: upload.Limits{Body: MaxMessage, Bodies: allMessages, Idle: messageTime, Total: 2 * messageTime}}
}

// run calls f with a running session, and checks that nothing of it remains.
func run(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{bank: &bank{left: 1 << 20, held: map[*turn]Need{}}, session: &Session{Model: "m", Window: 32000}, result: make(chan error, 1), memory: new(upload.Memory)}
		l.session.Host, l.session.ClientInbox, l.session.ProviderInbox = l.bank, l.inbox(), l.inbox()
		l.session.Client, l.client, l.breakClient = connect(t)
		l.provider, l.session.Provider, l.breakProvider = connect(t)
		if err := l.session.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { l.result <- l.session.Run(t.Context()); l.session.Close() }()
		l.t = t
		f(l)
		_, _ = l.client.CloseNow(), l.provider.CloseNow()
		synctest.Wait()
		pass(time.Minute)
		synctest.Wait()
		if l.open != 0 || len(l.held) != 0 || l.memory.Held() != 0 {
			t.Errorf("%d turns are open, %d reservations and %d bytes held", l.open, len(l.held), l.memory.Held())
		}
	})
}

// wait returns the result of the session once its peers know of its end.
func (l *lab) wait() error {
	err := <-l.result
	synctest.Wait()
	return err
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a synctest bubble
	synctest.Wait()
}

// peer reads what a side gets, so that its pings are answered.
type peer struct {
	mu     sync.Mutex
	events []string
	err    error // with which its connection ended
}

func listen(ctx context.Context, c *websocket.Conn, then func(event string)) *peer {
	p := &peer{}
	go func() {
		for {
			_, b, err := c.Read(ctx)
			p.mu.Lock()
			if p.err = err; err == nil {
				p.events = append(p.events, string(b))
			}
			p.mu.Unlock()
			if err != nil {
				return
			}
			if then != nil {
				then(string(b))
			}
		}
	}()
	return p
}

// closed returns the last event and the code of the close.
func (p *peer) closed() (last string, code websocket.StatusCode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.events); n > 0 {
		last = p.events[n-1]
	}
	return last, websocket.CloseStatus(p.err)
}

func send(t *testing.T, c *websocket.Conn, events ...string) {
	t.Helper()
	for _, e := range events {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(e)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

func created(id string) string { return `{"type":"response.created","response":{"id":"` + id + `"}}` }

func done(id string, output int) string {
	return fmt.Sprintf(`{"type":"response.done","response":{"id":%q,"status":"completed","usage":{"input_tokens":5,"output_tokens":%d}}}`, id, output)
}

const ask1 = `{"type":"response.create"}`

func TestSessionsEndAfterAnHour(t *testing.T) {
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		listen(l.t.Context(), l.provider, nil)
		pass(MaxAge - time.Second)
		synctest.Wait()
		if _, code := client.closed(); code != -1 {
			t.Fatalf("it ended early, with %d", code)
		}
		pass(2 * time.Second)
		if err := l.wait(); err != nil {
			t.Error(err)
		}
		if last, code := client.closed(); code != websocket.StatusNormalClosure || !strings.Contains(last, "request_timeout") {
			t.Errorf("%s, %d", last, code)
		}
	})
}

// TestSilentPeersEndTheSession: a side that answers no pings; a client that reads nothing does not make a failure of the provider.
func TestSilentPeersEndTheSession(t *testing.T) {
	t.Run("provider", func(t *testing.T) {
		run(t, func(l *lab) {
			client := listen(l.t.Context(), l.client, nil)
			began := time.Now()
			if err := l.wait(); err == nil {
				t.Error("the provider has not failed")
			}
			if took := time.Since(began); took < pongTimeout || took > pongTimeout+pingEvery+10*time.Second {
				t.Errorf("it took %s", took)
			}
			if last, code := client.closed(); code != websocket.StatusInternalError || !strings.Contains(last, "upstream_error") {
				t.Errorf("%s, %d", last, code)
			}
		})
	})
	t.Run("client", func(t *testing.T) {
		run(t, func(l *lab) {
			listen(l.t.Context(), l.provider, nil)
			began := time.Now()
			if err := l.wait(); err != nil || time.Since(began) > pongTimeout+pingEvery+10*time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		})
	})
	t.Run("client that reads seldom", func(t *testing.T) { // the provider's answers to pings are behind what it does not read
		run(t, func(l *lab) {
			listen(l.t.Context(), l.provider, nil)
			go func() {
				for range 100 {
					_ = l.provider.Write(l.t.Context(), websocket.MessageText, []byte(`{"type":"rate_limits.updated"}`))
				}
			}()
			go func() {
				for l.t.Context().Err() == nil {
					time.Sleep(stallLimit - time.Second) //nolint:forbidigo // the bubble's clock
					if _, _, err := l.client.Read(l.t.Context()); err != nil {
						return
					}
				}
			}()
			if err := l.wait(); err != nil {
				t.Error(err)
			}
			_ = l.client.CloseNow()
			pass(stallLimit)
		})
	})
	t.Run("client that is sent events", func(t *testing.T) {
		run(t, func(l *lab) {
			listen(l.t.Context(), l.provider, nil)
			pass(pingEvery - time.Millisecond)
			go func() {
				for range 100 {
					_ = l.provider.Write(l.t.Context(), websocket.MessageText, []byte(`{"type":"rate_limits.updated"}`))
				}
			}()
			began := time.Now()
			if err := l.wait(); err != nil || time.Since(began) > stallLimit+pingEvery+10*time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		})
	})
}

func TestMessagesAreLimited(t *testing.T) {
	for _, fromProvider := range []bool{false, true} {
		for over := range 2 {
			t.Run(fmt.Sprint(fromProvider, over), func(t *testing.T) {
				run(t, func(l *lab) {
					client, provider := listen(l.t.Context(), l.client, nil), listen(l.t.Context(), l.provider, nil)
					from, to := l.client, provider
					if fromProvider {
						from, to = l.provider, client
					}
					event := `{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("A", MaxMessage-47+over) + `"}`
					if len(event) != MaxMessage+over {
						t.Fatal(len(event))
					}
					_ = from.Write(l.t.Context(), websocket.MessageText, []byte(event))
					synctest.Wait()
					if got, code := to.closed(); (len(got) >= MaxMessage) != (over == 0) {
						t.Errorf("%d bytes arrived, closed with %d", len(got), code)
					}
				})
			})
		}
	}
}

// TestPeersThatDoNotReadEndTheSession after two minutes, and not before.
func TestPeersThatDoNotReadEndTheSession(t *testing.T) {
	long := `{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("A", 1<<20) + `"}`
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		pass(pingEvery / 2)
		began := time.Now()
		go func() { _ = l.client.Write(l.t.Context(), websocket.MessageText, []byte(long)) }()
		if err := l.wait(); err == nil || time.Since(began) < 2*time.Minute || time.Since(began) > 2*time.Minute+5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if last, code := client.closed(); code != websocket.StatusInternalError || !strings.Contains(last, "upstream_error") {
			t.Errorf("%s, %d", last, code)
		}
	})
	run(t, func(l *lab) {
		listen(l.t.Context(), l.provider, nil)
		pass(pingEvery / 2)
		began := time.Now()
		go func() { _ = l.provider.Write(l.t.Context(), websocket.MessageText, []byte(long)) }()
		if err := l.wait(); err != nil || time.Since(began) < 2*time.Minute || time.Since(began) > 2*time.Minute+15*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestMessagesUseTheMemoryOfBodies: while it is used up a session that gets a message ends, and others go on.
func TestMessagesUseTheMemoryOfBodies(t *testing.T) {
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		listen(l.t.Context(), l.provider, nil)
		const taken = allMessages - 100_000
		other := upload.Body{Memory: l.memory, Limits: upload.Limits{Body: taken, Bodies: allMessages}}
		if err := other.Add(make([]byte, taken)); err != nil {
			t.Fatal(err)
		}
		send(l.t, l.client, `{"type":"response.cancel"}`) // there is room for this one
		if last, code := client.closed(); code != -1 {
			t.Fatalf("%s, %d", last, code)
		}
		go func() {
			_ = l.client.Write(l.t.Context(), websocket.MessageText, []byte(`{"type":"input_audio_buffer.append","audio":"`+strings.Repeat("A", 200_000)+`"}`))
		}()
		if err := l.wait(); err != nil {
			t.Error(err)
		}
		if last, code := client.closed(); code != websocket.StatusTryAgainLater || !strings.Contains(last, "overloaded") {
			t.Errorf("%s, %d", last, code)
		}
		if other.Release(); l.memory.Held() != 0 {
			t.Errorf("%d bytes are held", l.memory.Held())
		}
	})
}

// TestMessagesArriveInTime: one that began and does not go on ends the session.
func TestMessagesArriveInTime(t *testing.T) {
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		listen(l.t.Context(), l.provider, nil)
		pass(10 * messageTime) // between messages there is no limit
		w, err := l.client.Writer(l.t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(strings.Repeat(" ", 10_000))); err != nil {
			t.Fatal(err)
		}
		pass(messageTime - time.Second)
		if last, code := client.closed(); code != -1 || l.memory.Held() == 0 {
			t.Fatalf("%s, %d, %d bytes are held", last, code, l.memory.Held())
		}
		pass(2 * time.Second)
		if err := l.wait(); err != nil {
			t.Error(err)
		}
		if last, code := client.closed(); code != websocket.StatusPolicyViolation || !strings.Contains(last, "request_timeout") {
			t.Errorf("%s, %d", last, code)
		}
	})
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		listen(l.t.Context(), l.provider, nil)
		w, err := l.provider.Writer(l.t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(strings.Repeat(" ", 10_000))); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := l.wait(); err == nil || !strings.Contains(err.Error(), errSlow.Error()) || time.Since(began) > messageTime+5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if last, code := client.closed(); code != websocket.StatusInternalError || !strings.Contains(last, "upstream_error") {
			t.Errorf("%s, %d", last, code)
		}
	})
}

// TestEstimatesOfSpeechKnowItsFormat: what a session is charged for a response whose usage is not reported.
func TestEstimatesOfSpeechKnowItsFormat(t *testing.T) {
	second := strings.Repeat("AAAA", 8000/3+1) // of G.711: 10 tokens that are heard, 20 that are spoken
	for settings, want := range map[string]string{
		`{}`: "3 1+4 true",
		`{"input_audio_format":"g711_ulaw","output_audio_format":"g711_alaw"}`:                          "3 10+21 true",
		`{"audio":{"input":{"format":{"type":"audio/pcmu"}},"output":{"format":{"type":"audio/pcm"}}}}`: "3 10+4 true",
	} {
		run(t, func(l *lab) {
			listen(l.t.Context(), l.client, nil)
			listen(l.t.Context(), l.provider, nil)
			send(l.t, l.provider, `{"type":"session.updated","session":`+settings+`}`)
			send(l.t, l.client, `{"type":"input_audio_buffer.append","audio":"`+second+`"}`)
			send(l.t, l.provider, created("r"), `{"type":"response.output_audio.delta","response_id":"r","delta":"`+second+`"}`)
			l.breakProvider()
			_ = l.wait()
			if !slices.Equal(l.ended, []string{want}) {
				t.Errorf("%s: %q", settings, l.ended)
			}
		})
	}
}

// TestHowProvidersEndSessions: what is the provider's failure, what the client gets, and that the response in progress is charged.
func TestHowProvidersEndSessions(t *testing.T) {
	for _, row := range []struct {
		name   string
		end    func(l *lab)
		code   websocket.StatusCode
		failed bool
	}{
		{"broken", func(l *lab) { l.breakProvider() }, websocket.StatusInternalError, true},
		{"1011", func(l *lab) { _ = l.provider.Close(websocket.StatusInternalError, "") }, websocket.StatusInternalError, true},
		{"1008, of the gateway's own key", func(l *lab) { _ = l.provider.Close(websocket.StatusPolicyViolation, "") }, websocket.StatusInternalError, true},
		{"4000", func(l *lab) { _ = l.provider.Close(4000, "") }, websocket.StatusInternalError, true},
		{"1000", func(l *lab) { _ = l.provider.Close(websocket.StatusNormalClosure, "") }, websocket.StatusNormalClosure, false},
		{"1001", func(l *lab) { _ = l.provider.Close(websocket.StatusGoingAway, "") }, websocket.StatusGoingAway, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			run(t, func(l *lab) {
				client := listen(l.t.Context(), l.client, nil)
				listen(l.t.Context(), l.provider, nil)
				send(l.t, l.client, ask1)
				send(l.t, l.provider, created("r"), `{"type":"response.output_text.delta","response_id":"r","delta":"four score"}`)
				row.end(l)
				if err := l.wait(); (err != nil) != row.failed {
					t.Errorf("%v", err)
				}
				synctest.Wait()
				last, code := client.closed()
				if code != row.code || strings.Contains(last, "upstream_error") != row.failed {
					t.Errorf("%s, %d", last, code)
				}
				if want := []string{"3 6+3 true"}; !slices.Equal(l.ended, want) {
					t.Errorf("ended %q, want %q", l.ended, want)
				}
			})
		})
	}
}

// TestNoResponseBeginsWithoutAReservation: however a client asks for responses.
func TestNoResponseBeginsWithoutAReservation(t *testing.T) {
	fails := `{"type":"error","error":{"code":"invalid_value","event_id":"x"}}`
	outside := `{"type":"response.create","event_id":"x","response":{"conversation":"none"}}`
	for _, row := range []struct {
		name     string
		client   []string // what it sends
		provider []string // what the provider answers
		least    int64    // held after that
	}{
		{"errors that are not about a response", slices.Repeat([]string{outside, outside}, 4), slices.Repeat([]string{fails}, 20), 8 * 8192},
		{"a refused one", []string{ask1, ask1}, []string{created("r"), `{"type":"error","error":{"code":"` + activeResponse + `"}}`}, 2 * 8192},
		{"begun by itself", nil, []string{created("r"), created("s"), created("t")}, 4 * 8192},
		{"items that are repeated", []string{
			`{"type":"conversation.item.create","item":{"type":"message","content":[{"type":"input_text","text":"` + strings.Repeat("x", 4000) + `"}]}}`,
			`{"type":"response.create","response":{"input":[` + strings.Repeat(`{"type":"item_reference","id":"i"},`, 5) + `{"type":"item_reference","id":"i"}]}}`,
		}, nil, 32000 + 4096},
		{"images", []string{`{"type":"conversation.item.create","item":{"content":[` + strings.Repeat(`{"type":"input_image","image_url":"data:,"},`, 3) + `{"type":"input_image"}]}}`}, nil, 16384 + 4096},
		{"a higher limit", []string{`{"type":"response.create","response":{"max_output_tokens":"inf"}}`}, []string{`{"type":"session.created","session":{"max_output_tokens":10}}`}, 8192},
		{"a limit that is not confirmed", []string{`{"type":"session.update","session":{"max_output_tokens":10}}`}, nil, 8192},
		{"a limit that is confirmed", []string{`{"type":"session.update","session":{"max_output_tokens":10}}`}, []string{`{"type":"session.updated","session":{"max_output_tokens":10}}`}, 4096 + 10},
		{
			"a higher limit that is not confirmed",
			[]string{`{"type":"session.update","session":{"max_output_tokens":10}}`, `{"type":"session.update","session":{"max_output_tokens":"inf"}}`},
			[]string{`{"type":"session.updated","session":{"max_output_tokens":10}}`},
			8192,
		},
		{"a low limit where speech may begin another response", []string{`{"type":"response.create","response":{"max_output_tokens":10}}`}, nil, 8192},
		{
			"a low limit without detection of turns",
			[]string{`{"type":"session.update","session":{}}`, `{"type":"response.create","response":{"max_output_tokens":10}}`},
			[]string{`{"type":"session.updated","session":{"turn_detection":null}}`},
			4096 + 10,
		},
		{
			"a response with a higher limit than was asked for",
			[]string{`{"type":"session.update","session":{}}`, `{"type":"response.create","response":{"max_output_tokens":10}}`},
			[]string{`{"type":"session.updated","session":{"turn_detection":null}}`, `{"type":"response.created","response":{"id":"r","max_output_tokens":"inf"}}`},
			2 * 8192,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			run(t, func(l *lab) {
				listen(l.t.Context(), l.client, nil)
				listen(l.t.Context(), l.provider, nil)
				send(l.t, l.client, row.client...)
				send(l.t, l.provider, row.provider...)
				if l.sum() != row.least {
					t.Errorf("%d tokens are held, want %d", l.sum(), row.least)
				}
			})
		})
	}
}

// TestErrorsDoNotFreeResponses: of an error it is not known which event it is about, so a response that was asked for may begin for half a minute.
func TestErrorsDoNotFreeResponses(t *testing.T) {
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		listen(l.t.Context(), l.provider, nil)
		ask := func() string {
			send(l.t, l.client, ask1)
			last, _ := client.closed()
			return last
		}
		fails := `{"type":"error","error":{"code":"invalid_value"}}`
		for range maxResponses {
			if got := ask(); got != "" && got != fails {
				t.Fatal(got)
			}
			send(l.t, l.provider, fails)
		}
		if l.sum() != maxResponses*8192 {
			t.Errorf("%d tokens are held", l.sum())
		}
		if got := ask(); !strings.Contains(got, "invalid_request") {
			t.Errorf("another one is sent: %s", got)
		}
		pass(askLife)
		pass(time.Second)
		send(l.t, l.provider, fails)
		if got := ask(); got != fails || l.sum() != 8192 {
			t.Errorf("%s, %d tokens are held", got, l.sum())
		}
	})
}

// TestResponsesWithoutMoneyEndTheSession, and are charged.
func TestResponsesWithoutMoneyEndTheSession(t *testing.T) {
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		listen(l.t.Context(), l.provider, nil)
		l.left = 8192
		send(l.t, l.provider, created("r"), created("s"))
		send(l.t, l.provider, done("r", 7), done("s", 9))
		if err := l.wait(); err != nil {
			t.Error(err)
		}
		if last, code := client.closed(); code != websocket.StatusPolicyViolation || !strings.Contains(last, "insufficient_balance") {
			t.Errorf("%s, %d", last, code)
		}
		if l.unpaid != 1 || !slices.Equal(l.ended, []string{"2 5+7 false", "2 5+9 false"}) {
			t.Errorf("%d, %q", l.unpaid, l.ended)
		}
	})
}

// TestAResponseThatWasAskedForIsCharged though the client leaves before it begins.
func TestAResponseThatWasAskedForIsCharged(t *testing.T) {
	run(t, func(l *lab) {
		listen(l.t.Context(), l.provider, func(event string) {
			if strings.Contains(event, "response.cancel") {
				_ = l.provider.Write(l.t.Context(), websocket.MessageText, []byte(created("r")))
				_ = l.provider.Write(l.t.Context(), websocket.MessageText, []byte(done("r", 3)))
			}
		})
		send(l.t, l.client, ask1)
		l.breakClient()
		if err := l.wait(); err != nil {
			t.Error(err)
		}
		if !slices.Equal(l.ended, []string{"2 5+3 false"}) {
			t.Errorf("%q", l.ended)
		}
	})
}

func TestRevokedKeysEndTheSession(t *testing.T) {
	run(t, func(l *lab) {
		client := listen(l.t.Context(), l.client, nil)
		listen(l.t.Context(), l.provider, nil)
		l.session.mu.Lock()
		l.revoked = fault.Newf(fault.InvalidAPIKey, "revoked")
		l.session.mu.Unlock()
		l.wait()
		if last, code := client.closed(); code != websocket.StatusPolicyViolation || !strings.Contains(last, "invalid_api_key") {
			t.Errorf("%s, %d", last, code)
		}
	})
}

// FuzzSessions: whatever is sent, in any order, and whoever leaves at any moment, every reservation is resolved, every response that began is charged once, and
// none begins without a reservation while there is money. run checks the first.
func FuzzSessions(f *testing.F) {
	f.Add([]byte{0, 5, 6, 8})
	f.Add([]byte{1, 0, 0, 5, 9, 7, 8, 5, 6, 6})
	f.Add([]byte{5, 5, 5, 5, 10, 5, 6})
	f.Add([]byte{2, 3, 4, 0, 12, 13, 5, 6, 11})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 40 {
			return
		}
		run(t, func(l *lab) {
			listen(l.t.Context(), l.client, nil)
			listen(l.t.Context(), l.provider, nil)
			began, over, gone := 0, 0, false
			write := func(c *websocket.Conn, event string) {
				_ = c.Write(l.t.Context(), websocket.MessageText, []byte(event)) // it may be closed
				synctest.Wait()
			}
			for _, step := range steps {
				switch step % 14 {
				case 0:
					write(l.client, ask1)
				case 1:
					write(l.client, `{"type":"input_audio_buffer.append","audio":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}`)
				case 2:
					write(l.client, `{"type":"session.update","session":{"max_output_tokens":100}}`)
				case 3:
					write(l.provider, `{"type":"session.updated","session":{"max_output_tokens":100,"turn_detection":null}}`)
				case 4:
					write(l.client, `{"type":"response.create","response":{"max_output_tokens":7}}`)
				case 5:
					if gone { // nothing is reserved any more
						continue
					}
					began++
					write(l.provider, created(fmt.Sprint(began)))
				case 6:
					over++
					write(l.provider, done(fmt.Sprint(over), 3))
				case 7:
					write(l.provider, `{"type":"error","error":{"code":"`+activeResponse+`"}}`)
				case 8:
					gone = true
					_ = l.client.CloseNow()
				case 9:
					write(l.client, `{"type":"response.cancel"}`)
				case 10:
					gone = true
					l.breakProvider()
				case 11:
					gone = true
					l.breakClient()
				case 12:
					pass(askLife + time.Second)
				case 13:
					write(l.client, `not JSON`)
				}
				synctest.Wait()
			}
			_ = l.client.CloseNow()
			l.wait()
			if l.unpaid > 0 {
				t.Errorf("%d responses had no reservation", l.unpaid)
			}
			if n := len(l.ended); n > began {
				t.Errorf("%d responses began, %d were charged", began, n)
			}
		})
	})
}
