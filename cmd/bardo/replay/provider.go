package replay

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/internal/example"
	"bardo.money/gateway/policy"
)

// The prompt caches of providers, as documented: Anthropic's reads and writes prefixes that end at a mark and have a minimum length, for five minutes after
// their last use, and finds a prefix that ended up to 20 blocks before a mark; OpenAI's reads the longest cached prefix of at least 1,024 tokens, in steps of
// 128.
const (
	lifetime     = 5 * time.Minute
	lookback     = 20
	openAIMin    = 1024
	openAIStep   = 128
	anthropicMin = 1024
)

// bytesPerToken is the token estimate, for direct requests and those of the gateway alike.
const bytesPerToken = 3.5

// provider simulates both vendors' prompt caches and prices. Safe for concurrent use.
type provider struct {
	now    func() time.Time
	prices func(model string) policy.Prices

	mu     sync.Mutex
	cached map[cacheKey]time.Time // prefixes, with the time of their last use
	model  string                 // of the current call
	answer Answer
	bill   Bill
}

// cacheKey is a prefix in a model's cache: models do not share prefixes.
type cacheKey struct {
	model string
	sum   [32]byte
}

// Bill is a provider's token counts and cost.
type Bill struct {
	Calls                          int
	Input, Cached, Written, Output int64 // tokens; Input is the whole prompt
	Cost                           policy.Pico
}

// Add adds another bill.
func (b *Bill) Add(o Bill) {
	b.Calls += o.Calls
	b.Input += o.Input
	b.Cached += o.Cached
	b.Written += o.Written
	b.Output += o.Output
	b.Cost = b.Cost.Plus(o.Cost)
}

// CachedShare is the share of the prompts' tokens that came from the provider's cache.
func (b *Bill) CachedShare() float64 {
	if b.Input == 0 {
		return 0
	}
	return float64(b.Cached) / float64(b.Input)
}

// block is a part of a prompt, in the order in which a provider's cache processes it.
type block struct {
	text   []byte
	marked bool
}

func tokensOf(n int) int64 { return int64(float64(n)/bytesPerToken + 0.5) }

// call answers a request in the format of its path.
func (p *provider) call(path string, body []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b map[string]json.RawMessage
	if err := json.Unmarshal(body, &b); err != nil {
		return []byte(`{"error":{"message":"not JSON"}}`)
	}
	var model string
	_ = json.Unmarshal(b["model"], &model)
	p.model = model
	one := Bill{Calls: 1}
	if blocks := blocksOf(b); strings.HasPrefix(model, "claude") {
		p.countMarked(blocks, &one)
	} else {
		p.countPrefix(blocks, &one)
	}
	if one.Output = p.answer.Tokens; one.Output == 0 {
		one.Output = max(tokensOf(len(p.answer.Text)), 1)
	}
	price := p.prices(model)
	one.Cost = price.Input.Cost(one.Input-one.Cached-one.Written).Plus(price.CachedInput.Cost(one.Cached), price.CacheWrite.Cost(one.Written), price.Output.Cost(one.Output))
	p.bill.Add(one)
	answer := p.answer
	if schema := schemaOf(b); schema != nil {
		answer.Text, answer.Tool = example.Of(schema, example.Options{}), ""
	}
	return answer.json(strings.HasSuffix(path, "/messages"), model, &one)
}

// schemaOf returns the schema that the answer must follow; nil for none.
func schemaOf(body map[string]json.RawMessage) []byte {
	var anthropic struct {
		Format struct{ Schema json.RawMessage }
	}
	if json.Unmarshal(body["output_config"], &anthropic) == nil && anthropic.Format.Schema != nil {
		return anthropic.Format.Schema
	}
	var openai struct {
		Form struct{ Schema json.RawMessage } `json:"json_schema"`
	}
	if json.Unmarshal(body["response_format"], &openai) == nil {
		return openai.Form.Schema
	}
	return nil
}

// takeBill returns the bill since the last call.
func (p *provider) takeBill() Bill {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.bill
	p.bill = Bill{}
	return b
}

// blocksOf returns the blocks of a prompt: tools, system prompt, messages. A text is equivalent to a text block.
func blocksOf(body map[string]json.RawMessage) []block {
	var w blockWriter
	w.each("tool ", body["tools"])
	w.each("system ", body["system"])
	w.each("system ", body["instructions"])
	for _, key := range [...]string{"messages", "input"} {
		var messages []json.RawMessage
		if json.Unmarshal(body[key], &messages) != nil {
			w.each("user ", body[key])
			continue
		}
		for _, raw := range messages {
			w.message(raw)
		}
	}
	return w.blocks
}

type blockWriter struct{ blocks []block }

// message adds a message's blocks; a message with members other than role and content is a single block.
func (w *blockWriter) message(raw json.RawMessage) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || len(m) != 2 || m["content"] == nil {
		w.add("", raw)
		return
	}
	w.each(string(m["role"])+" ", m["content"])
}

// each adds the elements of an array, or a text.
func (w *blockWriter) each(prefix string, raw json.RawMessage) {
	var list []json.RawMessage
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
	case json.Unmarshal(raw, &list) == nil:
		for _, e := range list {
			w.add(prefix, e)
		}
	case json.Unmarshal(raw, &text) == nil:
		block, _ := json.Marshal(map[string]string{"type": "text", "text": text})
		w.add(prefix, block)
	default:
		w.add(prefix, raw)
	}
}

func (w *blockWriter) add(prefix string, raw json.RawMessage) {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return
	}
	m, _ := v.(map[string]any)
	_, isMarked := m["cache_control"]
	delete(m, "cache_control")
	text, _ := json.Marshal(v)
	w.blocks = append(w.blocks, block{append([]byte(prefix), text...), isMarked})
}

// countMarked counts a prompt with Anthropic's cache marks.
func (p *provider) countMarked(blocks []block, b *Bill) {
	sums, lengths := prefixes(blocks)
	b.Input = lengths[len(lengths)-1]
	read := 0 // number of cached blocks
	for i := range blocks {
		if !blocks[i].marked {
			continue
		}
		for j := i; j >= max(0, i-lookback) && j+1 > read; j-- {
			if p.isCached(sums[j]) {
				read = j + 1
				break
			}
		}
	}
	if read > 0 {
		b.Cached = lengths[read-1]
		p.touch(sums[read-1])
	}
	for i := len(blocks) - 1; i >= read; i-- {
		if blocks[i].marked && lengths[i] >= anthropicMin {
			b.Written = lengths[i] - b.Cached
			break
		}
	}
	for i := range blocks {
		if blocks[i].marked && lengths[i] >= anthropicMin {
			p.touch(sums[i])
		}
	}
}

// countPrefix counts a prompt of a provider that caches automatically.
func (p *provider) countPrefix(blocks []block, b *Bill) {
	var all []byte
	for i := range blocks {
		all = append(append(all, blocks[i].text...), 0)
	}
	b.Input = tokensOf(len(all))
	var lengths []int
	for n := int64(openAIMin); n <= b.Input; n += openAIStep {
		lengths = append(lengths, min(int(float64(n)*bytesPerToken), len(all)))
	}
	for _, n := range slices.Backward(lengths) {
		if p.isCached(sha256.Sum256(all[:n])) {
			b.Cached = tokensOf(n)
			break
		}
	}
	for _, n := range lengths {
		p.touch(sha256.Sum256(all[:n]))
	}
}

func (p *provider) isCached(sum [32]byte) bool {
	at, ok := p.cached[cacheKey{p.model, sum}]
	return ok && p.now().Sub(at) <= lifetime
}

// touch adds a prefix to the cache, or renews its lifetime.
func (p *provider) touch(sum [32]byte) { p.cached[cacheKey{p.model, sum}] = p.now() }

// prefixes returns, for each block, the hash and the token count of the prompt up to it.
func prefixes(blocks []block) (sums [][32]byte, lengths []int64) {
	h := sha256.New()
	n := 0
	for i := range blocks {
		_, _ = h.Write(append(blocks[i].text, 0)) // never fails
		n += len(blocks[i].text)
		sums, lengths = append(sums, [32]byte(h.Sum(nil))), append(lengths, tokensOf(n))
	}
	if len(lengths) == 0 {
		return sums, []int64{0}
	}
	return sums, lengths
}

// json encodes the answer in a provider's format.
func (a *Answer) json(anthropic bool, model string, b *Bill) []byte {
	arguments := a.Arguments
	if arguments == nil {
		arguments = map[string]any{}
	}
	var v any
	if anthropic {
		content := []any{map[string]any{"type": "text", "text": a.Text}}
		stop := "end_turn"
		if a.Tool != "" {
			content, stop = append(content, map[string]any{"type": "tool_use", "id": "toolu_replay", "name": a.Tool, "input": arguments}), "tool_use"
		}
		v = map[string]any{
			"id": "msg_replay", "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": stop, "stop_sequence": nil,
			"usage": map[string]any{
				"input_tokens": b.Input - b.Cached - b.Written, "cache_read_input_tokens": b.Cached, "cache_creation_input_tokens": b.Written, "output_tokens": b.Output,
			},
		}
	} else {
		message, stop := map[string]any{"role": "assistant", "content": a.Text}, "stop"
		if a.Tool != "" {
			text, _ := json.Marshal(arguments)
			message["tool_calls"] = []any{map[string]any{"id": "call_replay", "type": "function", "function": map[string]any{"name": a.Tool, "arguments": string(text)}}}
			stop = "tool_calls"
		}
		v = map[string]any{
			"id": "chatcmpl-replay", "object": "chat.completion", "created": 1, "model": model,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": stop}},
			"usage": map[string]any{
				"prompt_tokens": b.Input, "completion_tokens": b.Output, "total_tokens": b.Input + b.Output,
				"prompt_tokens_details": map[string]any{"cached_tokens": b.Cached},
			},
		}
	}
	raw, _ := json.Marshal(v)
	return raw
}
