// Package fake holds programmable providers that speak the wire formats of OpenAI Chat Completions, Anthropic Messages
// and Gemini as the real ones do: field order, ids, event order, error bodies, headers, and what they refuse. A test says
// how the next answers behave, and reads afterwards what reached the provider. It knows nothing of the gateway.
package fake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/fake/promptcache"
	"bardo.money/gateway/e2e/fake/sigv4"
	"bardo.money/gateway/e2e/fake/testca"
)

// Dialect is a provider's wire format.
type Dialect string

// The dialects.
const (
	OpenAI    Dialect = "openai"
	Anthropic Dialect = "anthropic"
	Gemini    Dialect = "gemini"
)

// Config says which provider to play. The zero value of every field but Dialect works.
type Config struct {
	Dialect  Dialect
	Name     string           // prefix of its request ids; "": the dialect
	Key      string           // the credential it accepts; "": "sk-fake-" and the name
	Keys     []string         // further ones
	AWS      *sigv4.Key       // Bedrock: the credentials that it accepts in signatures
	Admin    string           // Venice: the key that manages keys; "": it has no such API
	Models   []string         // models it has; nil: any
	Vendor   Vendor           // whose API it is, where that differs from its dialect's; "": the dialect's own
	NoLegacy bool             // OpenAI: it has no /completions
	Allow    []string         // top-level parameters that it takes beyond the real provider's (vLLM's top_k, …)
	Only     []string         // OpenAI: models that it serves in Responses alone
	Signer   string           // Anthropic: whose signatures it gives and takes; "": one that all such fakes share; see Unsigned
	Betas    []string         // Anthropic: beta flags it knows; nil: any that looks like one
	Addr     string           // "": a free port of 127.0.0.1
	CA       *testca.CA       // not nil: serves TLS (HTTP/1.1 and HTTP/2) with a certificate of this authority
	MinCache int              // > 0: it caches the beginnings of prompts from so many tokens on, as its dialect's provider does, and reports it
	Batches  bool             // it answers batches; without, it only stores them
	Enclave  *enclave.Enclave // not nil: it signs its answers for those who ask
	Vault    *enclave.Vault   // not nil: it opens sealed requests
	Bench    *Bench           // not nil: answers with bytes rendered in advance, checks and records nothing
}

// checked are the settings that decide what is refused.
func (c *Config) checked() *check.Provider {
	return &check.Provider{Models: c.Models, Allow: c.Allow, Only: c.Only, Betas: c.Betas, Signer: check.Signer(c.Signer)}
}

// Server is a running fake provider. Safe for concurrent use.
type Server struct {
	URL string // base URL up to and including the version: http://127.0.0.1:1234/v1
	Key string // the credential that it accepts

	cfg     Config
	api     api
	http    *http.Server
	log     *log
	seq     atomic.Int64
	stopped chan struct{}
	served  chan struct{}
	kept    sync.Map // ids of responses and their items
	given   sync.Map // see anthropic
	keeper  keeper
	batcher batcher
	cache   *promptcache.Cache
	account account
	issued  issued

	mu      sync.Mutex
	always  Behaviour
	byModel map[string]Behaviour
	byKey   map[string]Behaviour
	byPath  map[string]Behaviour
	queue   []Behaviour
	queues  map[string][]Behaviour // by model
	list    *published             // nil: the models of cfg
	since   map[string]time.Time   // the first request for a model that recovers
}

// api is one dialect: what it refuses and how it renders an answer.
type api interface {
	// authorize returns the refusal of a wrong or missing credential, or nil.
	authorize(h http.Header, key string) *refusal
	// read checks a request for a completion as the real provider would.
	read(h http.Header, body []byte, cfg *Config) (*asked, *refusal)
	// headers are the provider's response headers besides the content's.
	headers(h http.Header, id string)
	// refusal is the body of an error.
	refusal(e *refusal, id string) []byte
	// errorFor is the typical error of a status.
	errorFor(status int) *refusal
	// body is a whole answer.
	body(q *asked, b *Behaviour, n int64) []byte
	// stream is the same as events.
	stream(q *asked, b *Behaviour, n int64) []frame
	// errorFrame is an error inside a stream.
	errorFrame(e *refusal) frame
	// models is the answer of GET /models.
	models(cfg *Config) []byte
}

// asked is what a request for a completion wants.
type asked struct {
	model        string
	stream       bool
	includeUsage bool
	choices      int
	inputTokens  int
	prompt       *Usage          // what the cache of prompts makes of it; nil: there is none
	cost         bool            // OpenRouter: the cost is wanted
	omitThinking bool            // Anthropic: its signatures alone are wanted
	showThoughts bool            // Gemini: they are wanted
	sealed       bool            // Responses: encrypted reasoning is wanted
	unkept       bool            // Responses: the answer is not stored
	custom       map[string]bool // Responses: tools that take text
	form         *check.Form     // nil: any
	signer       check.Signer
	prompts      []string // of the legacy completions
	echo, probs  bool     // of the legacy completions
	vector       int      // embeddings: how long each is
	base64       bool     // embeddings: and in which form
}

// refusal is an error before it is written in a dialect.
type refusal = check.Refusal

// refusalOf is what a table says of a status. One that it does not have is as 400, or from 500 on as 500.
func refusalOf(table map[int]refusal, status int) *refusal {
	e, ok := table[status]
	switch {
	case !ok && status < http.StatusInternalServerError:
		e = table[http.StatusBadRequest]
	case !ok:
		e = table[http.StatusInternalServerError]
	}
	e.Status = status
	return &e
}

// Start runs a fake until the test ends.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// New runs a fake until Stop.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Vendor != "" && cfg.Dialect == "" {
		cfg.Dialect = OpenAI
	}
	if cfg.Name == "" && cfg.Vendor != "" {
		cfg.Name = string(cfg.Vendor)
	}
	if cfg.Name == "" {
		cfg.Name = string(cfg.Dialect)
	}
	if cfg.Key == "" {
		cfg.Key = "sk-fake-" + cfg.Name
	}
	if cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0"
	}
	s := &Server{
		Key: cfg.Key, cfg: cfg, log: newLog(), cache: promptcache.New(cfg.MinCache, cfg.Dialect == Anthropic), stopped: make(chan struct{}), served: make(chan struct{}),
		byModel: map[string]Behaviour{}, byKey: map[string]Behaviour{}, byPath: map[string]Behaviour{}, since: map[string]time.Time{}, queues: map[string][]Behaviour{},
	}
	if _, known := vendors[cfg.Vendor]; cfg.Vendor != "" && !known {
		return nil, fmt.Errorf("fake provider: unknown vendor %q", cfg.Vendor)
	}
	switch cfg.Dialect {
	case OpenAI:
		s.api = openAI{}
	case Anthropic:
		s.api = anthropic{given: &s.given}
	case Gemini:
		s.api = gemini{}
	default:
		return nil, fmt.Errorf("fake provider: unknown dialect %q", cfg.Dialect)
	}
	if err := s.listen(ctx); err != nil {
		return nil, fmt.Errorf("fake provider %s: %w", cfg.Name, err)
	}
	return s, nil
}

func (s *Server) listen(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return err
	}
	scheme := "http"
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Minute}
	if s.cfg.CA != nil {
		scheme = "https"
		s.http.TLSConfig = s.cfg.CA.ServerConfig()
		l = tls.NewListener(l, s.http.TLSConfig)
	}
	s.URL = scheme + "://" + l.Addr().String() + s.root()
	go func() {
		defer close(s.served)
		_ = s.http.Serve(l) // always ErrServerClosed: the listener is ours alone
	}()
	return nil
}

// root is the path of its base URL.
func (s *Server) root() string {
	switch {
	case s.cfg.Dialect == Gemini:
		return geminiRoot
	case s.cfg.Vendor == Bedrock:
		return ""
	}
	return "/v1"
}

func (s *Server) handler() http.Handler {
	if s.cfg.Bench != nil {
		return s.cfg.Bench.handler(s.api)
	}
	return http.HandlerFunc(s.serve)
}

// Stop closes the listener and every connection, those of hanging answers included.
func (s *Server) Stop() {
	select {
	case <-s.stopped:
		return
	default:
		close(s.stopped)
	}
	_ = s.http.Close()
	<-s.served
}

// Behave sets how every request from now on is answered, and clears what was said before.
func (s *Server) Behave(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always, s.queue = b, nil
	clear(s.queues)
	clear(s.byModel)
	clear(s.byKey)
	clear(s.byPath)
}

// Queue adds behaviours for the next requests for a completion, one each, before those of Behave and BehaveFor apply.
func (s *Server) Queue(bs ...Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, bs...)
}

// QueueFor is Queue for the requests of one model (as this provider is asked for it), which no other request takes.
func (s *Server) QueueFor(model string, bs ...Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[model] = append(s.queues[model], bs...)
}

// BehaveFor sets how completions of one model (as this provider is asked for it) are answered.
func (s *Server) BehaveFor(model string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byModel[model] = b
}

// BehaveWith sets how completions are answered that come with one key, whatever else was said.
func (s *Server) BehaveWith(key string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKey[key] = b
}

// BehaveOn sets how the other paths fail, e.g. "/models": their status, delay, break and headers are used.
func (s *Server) BehaveOn(path string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byPath[path] = b
}

// Reset makes the fake healthy and forgetful again.
func (s *Server) Reset() {
	s.Behave(Behaviour{})
	s.Forget()
}

func (s *Server) next(r *Request) Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.IsGeneration() {
		return s.byPath[strings.TrimPrefix(r.Path, s.root())]
	}
	if b, ok := s.byKey[r.Key()]; ok {
		return b
	}
	if q := s.queues[r.Model]; len(q) > 0 {
		s.queues[r.Model] = q[1:]
		return q[0]
	}
	if len(s.queue) > 0 {
		b := s.queue[0]
		s.queue = s.queue[1:]
		return b
	}
	b, ok := s.byModel[r.Model]
	if !ok {
		b = s.always
	}
	if b.Answered != nil && bringsResult(r.Body) {
		return *b.Answered
	}
	if b.Recovers > 0 && s.recovered(r, b.Recovers) {
		b.Status = 0
	}
	return b
}

// recovered reports whether the model's first request is that long ago. The caller holds the lock.
func (s *Server) recovered(r *Request, after time.Duration) bool {
	first, ok := s.since[r.Model]
	if !ok {
		first = r.Time
		s.since[r.Model] = first
	}
	return r.Time.Sub(first) >= after
}

// serve records a request, decides about it as the real provider would, and plays the answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	rec := &Request{
		Method: r.Method, Path: r.URL.Path, RawQuery: r.URL.RawQuery, Host: r.Host, Proto: r.Proto,
		Header: r.Header.Clone(), Body: body, Time: time.Now(), Model: modelOf(body),
	}
	if s.cfg.Dialect == Gemini {
		rec.Model, _ = geminiPath(rec.Path)
	}
	s.log.add(rec)
	p := &player{s: s, api: s.apiOn(r.URL.Path), w: w, r: r, rec: rec, n: s.seq.Add(1)}
	defer p.end()
	if err != nil {
		p.broken(fmt.Errorf("reading the request: %w", err))
		return
	}
	if s.isRealtime(r) {
		s.serveRealtime(p, r, rec)
		return
	}
	b := s.next(rec)
	p.b = &b
	p.id = requestID(s.cfg.Dialect, s.cfg.Name, p.n)
	inside := rec
	if s.cfg.Vault != nil {
		of, refused := s.cfg.Vault.Open(body)
		switch {
		case refused != nil:
			p.refuse(refused)
			return
		case of != nil:
			opened := *rec
			opened.Body, opened.Path, inside = of.Body, strings.Replace(rec.Path, "/e2ee/", "/", 1), &opened
			p.api = s.apiOn(opened.Path)
			out := &sealer{ResponseWriter: w, of: of, change: b.Sealed}
			p.w, p.sealed = out, true
			defer out.finish(p)
		}
	}
	b.echo(s.cfg.Name, p.n, inside.Body)
	if p.play(s.route(p.api, inside)); p.err != nil && !errors.Is(p.err, errBroken) {
		p.broken(p.err)
	}
}

// route returns the refusal, or the request, or the fixed body that this path answers with.
func (s *Server) route(a api, r *Request) outcome {
	if o, ok := s.routeKeys(r); ok {
		return o
	}
	key := s.cfg.Key
	if slices.Contains(s.cfg.Keys, r.Key()) || s.issued.takes(r.Key()) {
		key = r.Key()
	}
	if s.cfg.AWS != nil && sigv4.IsSigned(r.Header) {
		signed := sigv4.Request{Method: r.Method, Host: r.Host, Path: r.Path, RawQuery: r.RawQuery, Header: r.Header, Body: r.Body, Time: r.Time}
		if why := s.cfg.AWS.Check(&signed); why != "" {
			return outcome{refused: &refusal{Status: http.StatusForbidden, Kind: "permission_error", Message: why}}
		}
	} else if e := a.authorize(r.Header, key); e != nil {
		return outcome{refused: e}
	}
	if s.cfg.Dialect == Gemini {
		return s.routeGemini(r)
	}
	path := strings.TrimPrefix(r.Path, "/v1")
	switch {
	case (path == "/models" || s.cfg.Vendor == Bedrock && path == "/openai/v1/models") && r.Method == http.MethodGet:
		return s.listed(a, r)
	case s.serves(path):
		if r.Method != http.MethodPost {
			return outcome{refused: &refusal{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error", Message: "Method Not Allowed"}}
		}
		q, e := a.read(r.Header, r.Body, &s.cfg)
		if e == nil && s.cfg.MinCache > 0 {
			u := s.cache.Serve(r.Body)
			q.prompt = &Usage{Input: u.Input, Cached: u.Cached, CacheWrite5m: u.Write5m, CacheWrite1h: u.Write1h}
		}
		return outcome{asked: q, refused: e}
	case s.cfg.Dialect == OpenAI && path == "/responses/input_tokens" && r.Method == http.MethodPost:
		return outcome{fixed: inputTokens(r.Body)}
	case s.cfg.Dialect == Anthropic && path == "/messages/count_tokens" && r.Method == http.MethodPost:
		n, e := countTokens(r.Header, r.Body, &s.cfg)
		return outcome{fixed: n, refused: e}
	}
	if o, ok := s.routeAccount(path, r); ok {
		return o
	}
	if o, ok := s.routeModality(path, r); ok {
		return o
	}
	if o, ok := s.routeBatches(path, r); ok {
		return o
	}
	if o, ok := s.routeKept(path, r); ok {
		return o
	}
	return outcome{refused: &refusal{
		Status: http.StatusNotFound, Kind: a.errorFor(http.StatusNotFound).Kind,
		Message: fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.Path), Quiet: true,
	}}
}

// outcome is one of its fields.
type outcome struct {
	refused *refusal
	asked   *asked
	fixed   []byte
	raw     *Raw
	etag    string // of fixed
	// unchanged is set where the caller has what it asks for.
	unchanged bool
}
