package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"strings"
)

// Listed is a model in a provider's list of models.
type Listed struct {
	ID            string
	Input, Output string // USD per million tokens
	Context       int    // 0: 128000
}

// The forms of lists of models.
const (
	ListOpenAI     = "openai"
	ListOpenRouter = "openrouter"
	ListVenice     = "venice"
	ListBlockRun   = "blockrun"
)

// published is a list of models as it goes out.
type published struct {
	body []byte
	etag string
}

// Publish sets the list of models that GET /models answers with, in one provider's own form, with an ETag that says which list it is. A
// caller that knows the list is told that nothing has changed.
func (s *Server) Publish(form string, models ...Listed) {
	rows := make([]string, len(models))
	for i, m := range models {
		if m.Context == 0 {
			m.Context = 128_000
		}
		rows[i] = m.row(form)
	}
	p := &published{body: []byte(`{"object":"list","data":[` + strings.Join(rows, ",") + `]}`)}
	sum := sha256.Sum256(p.body)
	p.etag = `W/"` + hex.EncodeToString(sum[:8]) + `"`
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = p
}

// row is the model in a provider's own form.
func (m Listed) row(form string) string {
	switch form {
	case ListOpenRouter:
		return fmt.Sprintf(`{"id":%s,"name":%[1]s,"created":%d,"context_length":%d,"architecture":{"modality":"text->text","input_modalities":["text"],"output_modalities":["text"]},`+
			`"pricing":{"prompt":%s,"completion":%s,"request":"0","image":"0"},"top_provider":{"context_length":%[3]d,"max_completion_tokens":4096,"is_moderated":false},`+
			`"per_request_limits":null,"supported_parameters":["max_tokens","temperature","tools","tool_choice"]}`,
			quote(m.ID), openAICreated, m.Context, quote(perToken(m.Input)), quote(perToken(m.Output)))
	case ListVenice:
		return fmt.Sprintf(`{"id":%s,"type":"text","object":"model","created":%d,"owned_by":"venice.ai","model_spec":{"availableContextTokens":%d,"privacy":"private","offline":false,"traits":[],`+
			`"capabilities":{"supportsFunctionCalling":true,"supportsReasoning":false,"supportsReasoningEffort":false,"supportsResponseSchema":true,"supportsVision":false,"supportsWebSearch":true},`+
			`"pricing":{"input":{"usd":%s,"diem":%[4]s},"output":{"usd":%s,"diem":%[5]s}}}}`, quote(m.ID), openAICreated, m.Context, m.Input, m.Output)
	case ListBlockRun:
		return fmt.Sprintf(`{"id":%s,"object":"model","created":%d,"owned_by":"blockrun","available":true,"billing_mode":"paid","categories":["chat"],"pricing":{"input":%s,"output":%s},"context_window":%d}`,
			quote(m.ID), openAICreated, m.Input, m.Output, m.Context)
	}
	return fmt.Sprintf(`{"id":%s,"object":"model","created":%d,"owned_by":"system"}`, quote(m.ID), openAICreated)
}

// perToken is a price per million tokens as OpenRouter writes it.
func perToken(perMillion string) string {
	r, ok := new(big.Rat).SetString(perMillion)
	if !ok {
		return perMillion // a test's own nonsense
	}
	return strings.TrimSuffix(strings.TrimRight(r.Quo(r, big.NewRat(1_000_000, 1)).FloatString(12), "0"), ".")
}

// listed answers with what was published, else with the models of the configuration.
func (s *Server) listed(a api, r *Request) outcome {
	s.mu.Lock()
	p := s.list
	s.mu.Unlock()
	switch {
	case p == nil:
		return outcome{fixed: a.models(&s.cfg)}
	case r.Header.Get("If-None-Match") == p.etag:
		return outcome{etag: p.etag, unchanged: true}
	}
	return outcome{fixed: p.body, etag: p.etag}
}

// unchanged tells a caller that what it has is what there is.
func (p *player) unchanged() { p.header(http.StatusNotModified) }

// Unchanged is how many callers were told so.
func (s *Server) Unchanged() (n int) {
	for _, r := range s.Requests() {
		if r.Status == http.StatusNotModified {
			n++
		}
	}
	return n
}
