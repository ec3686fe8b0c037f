package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/internal/rawjson"
)

// Vendor is a provider whose API is a dialect with differences of its own.
type Vendor string

// The vendors. BlockRun and Bankr speak both dialects: Anthropic's on /messages, OpenAI's on /chat/completions. Bedrock does below /anthropic/v1 and
// /openai/v1, with a key as a bearer token or signed requests.
const (
	OpenRouter Vendor = "openrouter"
	BlockRun   Vendor = "blockrun"
	Venice     Vendor = "venice"
	Bankr      Vendor = "bankr"
	DeepSeek   Vendor = "deepseek"
	Qwen       Vendor = "qwen"
	Groq       Vendor = "groq"
	Azure      Vendor = "azure" // deployments in its paths, below the root; the key in api-key
	Bedrock    Vendor = "bedrock"
	Mistral    Vendor = "mistral"
	Cerebras   Vendor = "cerebras"
)

// rules are what a vendor's OpenAI format takes beyond OpenAI's own parameters, and what it refuses.
type rules struct {
	params  []string
	members []string // of messages and tools, at any depth
	check   func(o object) *refusal
}

var vendors = map[Vendor]rules{
	OpenRouter: {
		params: []string{
			"provider", "models", "route", "transforms", "plugins", "reasoning", "usage", "top_k", "min_p", "top_a", "repetition_penalty",
		},
		members: []string{"cache_control", "reasoning_details", "reasoning", "images", "provider_specific_fields", "thinking_blocks"},
		check:   check.OpenRouter,
	},
	BlockRun: {params: []string{"reasoning", "thinking_level", "top_k"}, check: check.BlockRun},
	Venice: {
		params:  []string{"venice_parameters", "reasoning", "top_k", "min_p", "min_temp", "max_temp", "repetition_penalty", "stop_token_ids"},
		members: []string{"cache_control", "reasoning_details", "reasoning"},
		check:   check.Venice,
	},
	Bankr:    {},
	Azure:    {},
	Bedrock:  {check: check.Bedrock},
	Groq:     {members: []string{"reasoning"}, check: check.Groq},
	Mistral:  {members: []string{"prefix"}, check: check.Mistral},
	Cerebras: {members: []string{"reasoning"}, check: check.Cerebras},
	DeepSeek: {params: []string{"thinking"}, check: check.DeepSeek},
	Qwen: {
		params:  []string{"enable_thinking", "thinking_budget", "enable_search", "search_options", "top_k", "repetition_penalty"},
		members: []string{"cache_control"},
		check:   check.Qwen,
	},
}

// apiOn is the API of a path.
func (s *Server) apiOn(path string) api {
	r, ok := vendors[s.cfg.Vendor]
	switch {
	case s.cfg.Dialect == OpenAI && strings.HasSuffix(path, "/embeddings"):
		return embeddings{}
	case s.completesPrompts(path):
		return prompted{}
	case !ok && s.cfg.Dialect == OpenAI && strings.HasSuffix(path, "/responses"):
		return responses{kept: &s.kept}
	case !ok:
		return s.api
	case strings.HasSuffix(path, "/messages"):
		return vendorMessages{anthropic: anthropic{given: &s.given}, vendor: s.cfg.Vendor}
	}
	return vendorChat{vendor: s.cfg.Vendor, rules: r}
}

// serves reports whether a path asks for a completion.
func (s *Server) serves(path string) bool {
	switch s.cfg.Vendor {
	case BlockRun, Bankr:
		return path == "/chat/completions" || path == "/messages"
	case Bedrock:
		return path == "/anthropic/v1/messages" || path == "/openai/v1/chat/completions"
	case Azure:
		return strings.HasPrefix(path, "/openai/deployments/") && strings.HasSuffix(path, "/chat/completions")
	case OpenRouter, Venice:
		return path == "/chat/completions" || path == "/embeddings" || s.completesPrompts(path)
	default:
		return s.cfg.Dialect == OpenAI && (path == "/chat/completions" || s.cfg.Vendor == "" && path == "/embeddings" || s.completesPrompts(path) || s.cfg.Vendor == "" && path == "/responses") || s.cfg.Dialect == Anthropic && path == "/messages"
	}
}

// confirmation are the headers by which a vendor confirms that it retains nothing.
func (v Vendor) confirmation() [][2]string {
	if v != Venice {
		return nil
	}
	return [][2]string{{"X-Venice-Privacy-Level", "private"}, {"X-Venice-Retention-Policy", "none"}}
}

// vendorMessages is Anthropic's format at a vendor with both.
type vendorMessages struct {
	anthropic
	vendor Vendor
}

func (v vendorMessages) authorize(h http.Header, key string) *refusal {
	return authorizeVendor(v.vendor, h, key)
}

func (v vendorMessages) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	model := modelOf(body)
	o, err := rawjson.Parse(body)
	if err != nil || !strings.Contains(model, "claude") {
		return nil, &refusal{Status: http.StatusBadRequest, Kind: "invalid_request_error", Message: "model " + model + " is not served here"}
	}
	o["model"] = json.RawMessage(quote(anthropicName(strings.TrimPrefix(model, "anthropic."))))
	plain, err := json.Marshal(o)
	if err != nil {
		return nil, check.Bad("", "", "%v", err)
	}
	q, e := v.anthropic.read(h, plain, cfg)
	if q != nil {
		q.model = model
	}
	return q, e
}

// anthropicName is what Anthropic calls a model that a vendor calls anthropic/claude-opus-4.6.
func anthropicName(model string) string {
	return strings.ReplaceAll(model[strings.LastIndexByte(model, '/')+1:], ".", "-")
}

// vendorChat is a vendor's OpenAI format.
type vendorChat struct {
	openAI
	vendor Vendor
	rules  rules
}

func (v vendorChat) authorize(h http.Header, key string) *refusal {
	return authorizeVendor(v.vendor, h, key)
}

// authorizeVendor takes a bearer; Bankr takes a header of its own, too.
func authorizeVendor(v Vendor, h http.Header, key string) *refusal {
	if v == Azure {
		plain := http.Header{"Authorization": {"Bearer " + h.Get("Api-Key")}}
		if h.Get("Authorization") != "" {
			plain = nil
		}
		return openAI{}.authorize(plain, key)
	}
	if v == Bankr && h.Get("X-Api-Key") == key {
		return nil
	}
	return openAI{}.authorize(h, key)
}

// read checks what the vendor knows, and has the rest checked as OpenAI does.
func (v vendorChat) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	o, err := rawjson.Parse(body)
	if err != nil {
		return v.openAI.read(h, body, cfg)
	}
	if v.rules.check != nil {
		if e := v.rules.check(o); e != nil {
			return nil, e
		}
	}
	cost := o.Object("usage").Bool("include")
	for _, p := range v.rules.params {
		delete(o, p)
	}
	for _, key := range []string{"messages", "tools"} {
		if len(v.rules.members) > 0 && o.Has(key) {
			o[key] = without(o[key], v.rules.members)
		}
	}
	plain, err := json.Marshal(o)
	if err != nil {
		return nil, check.Bad("", "", "%v", err)
	}
	q, e := v.openAI.read(h, plain, cfg)
	if q != nil {
		q.inputTokens, q.cost = max(1, len(body)/4), cost
	}
	return q, e
}

// without is a value without what only the vendor knows, and without null members, at any depth.
func without(raw json.RawMessage, members []string) json.RawMessage {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, err := json.Marshal(omit(v, members))
	if err != nil {
		return raw
	}
	return out
}

func omit(v any, members []string) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = omit(v[i], members)
		}
	case map[string]any:
		for k := range v {
			if v[k] == nil && k != "content" || slices.Contains(members, k) {
				delete(v, k)
				continue
			}
			v[k] = omit(v[k], members)
		}
	}
	return v
}

func (v vendorChat) body(q *asked, b *Behaviour, n int64) []byte {
	return []byte(v.worded(string(v.openAI.body(q, b, n)), q))
}

func (v vendorChat) stream(q *asked, b *Behaviour, n int64) []frame {
	fs := v.openAI.stream(q, b, n)
	for i := range fs {
		fs[i].data = v.worded(fs[i].data, q)
	}
	if v.vendor == OpenRouter {
		fs = slices.Insert(fs, 0, frame{data: ": OPENROUTER PROCESSING\n\n"})
	}
	return fs
}

var (
	thoughtMember = regexp.MustCompile(`"reasoning_content": ?("(?:[^"\\]|\\.)*")`)
	totalMember   = regexp.MustCompile(`"total_tokens": ?\d+`)
)

// OpenRouterCost is what every answer of an OpenRouter costs, in dollars, for those who ask.
const OpenRouterCost = "0.00042"

// worded is an answer in the vendor's words.
func (v vendorChat) worded(text string, q *asked) string {
	if v.vendor != OpenRouter {
		return text
	}
	text = thoughtMember.ReplaceAllString(text, `"reasoning":$1,"reasoning_details":[{"type":"reasoning.text","text":$1,"format":"unknown","index":0}]`)
	if q.cost {
		text = totalMember.ReplaceAllString(text, `$0,"cost":`+OpenRouterCost+`,"is_byok":false,"cost_details":{"upstream_inference_cost":null}`)
	}
	return text
}

func (v vendorChat) refusal(e *refusal, id string) []byte {
	switch v.vendor {
	case OpenRouter:
		return []byte(fmt.Sprintf(`{"error":{"message":%s,"code":%d,"metadata":{"provider_name":"Fake"}},"user_id":"user_fake"}`, quote(e.Message), e.Status))
	case Venice:
		return []byte(fmt.Sprintf(`{"error":%s}`, quote(e.Message)))
	default:
		return v.openAI.refusal(e, id)
	}
}

func (v vendorChat) errorFrame(e *refusal) frame {
	if v.vendor != OpenRouter {
		return v.openAI.errorFrame(e)
	}
	return frame{data: fmt.Sprintf(`data: {"id":"gen-fake","object":"chat.completion.chunk","created":%d,"model":"m","provider":"Fake","error":{"code":%d,"message":%s},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`+"\n\n",
		openAICreated, e.Status, quote(e.Message))}
}
