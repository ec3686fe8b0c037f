package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Operation is the kind of a request, by its name in the semantic conventions.
type Operation uint8

// The operations.
const (
	Chat          Operation = iota // a completion
	CountTokens                    // a count without a completion
	Explain                        // what would be done with a request, without sending it
	Lookup                         // models, balances, records, health: answered by the gateway
	Passthrough                    // files, batches and other objects stored at a provider, with a user's own key
	Embeddings                     // vectors for texts
	Images                         // image generation
	Speech                         // text to speech
	Transcription                  // speech to text
	Moderation                     // content classification
	Rerank                         // document ranking
	Realtime                       // a realtime session, or one of its responses
	MCP                            // a message to a server of the Model Context Protocol
	Unrouted                       // no endpoint was found
)

// Metered reports whether a provider is paid for the operation.
func (o Operation) Metered() bool {
	return o == Chat || o == Embeddings || o >= Images && o <= Realtime
}

func (o Operation) String() string {
	switch o {
	case Chat:
		return "chat"
	case CountTokens:
		return "count_tokens"
	case Explain:
		return "explain"
	case Lookup:
		return "lookup"
	case Passthrough:
		return "passthrough"
	case Embeddings:
		return "embeddings"
	case Images:
		return "image_generation"
	case Speech:
		return "speech"
	case Transcription:
		return "transcription"
	case Moderation:
		return "moderation"
	case Rerank:
		return "rerank"
	case Realtime:
		return "realtime"
	case MCP:
		return "mcp"
	case Unrouted:
	}
	return Other
}

// maxSeries limits the combinations of operation, provider and model with series of their own. Beyond it the model is Other.
const maxSeries = 1000

// Request is a finished client request. Its strings are from bounded sets, except Model, which may be any client text.
type Request struct {
	Operation Operation
	Provider  string // that answered; "" if none did
	Model     string // id in the catalog; "" if the request did not name one
	Status    int    // HTTP status
	Code      string // of the fault that the client got; "" if it got an answer
	Streamed  bool

	Duration   time.Duration // whole request
	Overhead   time.Duration // from the complete request to the first attempt; 0 without an attempt
	FirstToken time.Duration // to the first content of a stream; 0 without one

	Tokens       Tokens
	ProviderCost int64 // in 1e-12 USD
	Charged      int64 // in 1e-6 USD
}

// Tokens are a request's tokens, by type. Input excludes cached ones and cache writes; Output includes Reasoning.
type Tokens struct{ Input, Cached, CacheWrite, Output, Reasoning int64 }

// status is the key of a request counter.
type status struct {
	status int
	code   string
}

// served is the key of a series.
type served struct {
	operation       Operation
	provider, model string
}

// series are the metrics of requests that one model of one provider served.
type series struct {
	duration, firstToken, perToken, input, output prometheus.Observer
	tokens                                        [5]prometheus.Counter // as in Tokens
	cost, charged                                 prometheus.Counter
}

// RequestDone counts a finished client request.
func (m *Metrics) RequestDone(r *Request) {
	m.counter(r).Inc()
	if r.Overhead > 0 {
		m.overhead.Observe(r.Overhead.Seconds())
	}
	k := served{r.Operation, r.Provider, m.model(r.Model)}
	if r.Code != "" {
		m.client.request.WithLabelValues(k.operation.String(), k.provider, k.model, r.Code).Observe(r.Duration.Seconds())
	}
	if r.Code != "" && r.Provider == "" {
		return // refused before any provider was used
	}
	s := m.seriesOf(k)
	if r.Code == "" {
		s.duration.Observe(r.Duration.Seconds())
	}
	s.count(r)
}

func (m *Metrics) counter(r *Request) prometheus.Counter {
	k := status{r.Status, r.Code}
	if k.status < 100 || k.status > 599 {
		k.status = 0
	}
	if k.code == "" {
		k.code = "ok"
	}
	c, ok := m.byStatus.get(k)
	if !ok {
		c = m.byStatus.put(k, m.requests.WithLabelValues(strconv.Itoa(k.status), k.code))
	}
	return c
}

func (m *Metrics) seriesOf(k served) *series {
	if s, ok := m.series.get(k); ok {
		return s
	}
	if m.series.len() >= maxSeries {
		k.model = Other
	}
	return m.series.put(k, m.newSeries(k))
}

func (m *Metrics) newSeries(k served) *series {
	operation := k.operation.String()
	s := &series{
		duration:   m.client.request.WithLabelValues(operation, k.provider, k.model, ""),
		firstToken: m.client.firstToken.WithLabelValues(operation, k.provider, k.model),
		perToken:   m.client.perToken.WithLabelValues(operation, k.provider, k.model),
		input:      m.client.tokens.WithLabelValues(operation, k.provider, k.model, "input"),
		output:     m.client.tokens.WithLabelValues(operation, k.provider, k.model, "output"),
		cost:       m.money.cost.WithLabelValues(k.provider, k.model),
		charged:    m.money.charged.WithLabelValues(k.provider, k.model),
	}
	for i, name := range [...]string{"input", "cached", "cache_write", "output", "reasoning"} {
		s.tokens[i] = m.money.tokens.WithLabelValues(k.provider, k.model, name)
	}
	return s
}

// count adds the request's usage.
func (s *series) count(r *Request) {
	t := r.Tokens
	if input := t.Input + t.Cached + t.CacheWrite; input > 0 {
		s.input.Observe(float64(input))
	}
	if t.Output > 0 {
		s.output.Observe(float64(t.Output))
	}
	for i, n := range [...]int64{t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning} {
		add(s.tokens[i], float64(n))
	}
	add(s.cost, float64(r.ProviderCost)/1e6)
	add(s.charged, float64(r.Charged))
	if !r.Streamed || r.FirstToken <= 0 {
		return
	}
	s.firstToken.Observe(r.FirstToken.Seconds())
	if t.Output > 1 && r.Duration > r.FirstToken {
		s.perToken.Observe((r.Duration - r.FirstToken).Seconds() / float64(t.Output-1))
	}
}

// add ignores negative amounts, on which a counter panics.
func add(c prometheus.Counter, n float64) {
	if n > 0 {
		c.Add(n)
	}
}
