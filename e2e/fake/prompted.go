package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
)

// prompted is OpenAI's legacy endpoint, which completes a prompt.
type prompted struct{ openAI }

var promptedParams = []string{
	"model", "prompt", "best_of", "echo", "frequency_penalty", "logit_bias", "logprobs", "max_tokens", "n", "presence_penalty", "seed", "stop",
	"stream", "stream_options", "suffix", "temperature", "top_p", "user",
}

// completesPrompts reports whether a path is that endpoint, and it is served here.
func (s *Server) completesPrompts(path string) bool {
	return s.cfg.Dialect == OpenAI && !s.cfg.NoLegacy && (s.cfg.Vendor == "" || s.cfg.Vendor == OpenRouter) && strings.TrimPrefix(path, "/v1") == "/completions"
}

func (prompted) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	o, refused := check.OpenAIBody(h, body, cfg.checked())
	if refused != nil {
		return nil, refused
	}
	if name := o.Unknown(append(slices.Clone(promptedParams), cfg.Allow...)...); name != "" {
		return nil, check.Bad(name, "unknown_parameter", "Unrecognized request argument supplied: %s", name)
	}
	prompts, tokens := promptsOf(o["prompt"])
	n, _ := o.Num("n")
	best, _ := o.Num("best_of")
	switch {
	case len(prompts) == 0:
		return nil, check.Bad("prompt", "", "you must provide a prompt")
	case o.Has("best_of") && best < n:
		return nil, check.Bad("best_of", "", "You requested that the server return more choices than it will generate (HINT: if you want n=%g, you should also set best_of=%g).", n, n)
	case o.Bool("stream") && best > max(n, 1):
		return nil, check.Bad("best_of", "", "You cannot use best_of with stream")
	case o.Has("stream_options") && !o.Bool("stream"):
		return nil, check.Bad("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	return &asked{
		model: o.Str("model"), stream: o.Bool("stream"), includeUsage: o.Object("stream_options").Bool("include_usage"), choices: max(1, int(n)),
		inputTokens: tokens, prompts: prompts, echo: o.Bool("echo"), probs: o.Has("logprobs"),
	}, nil
}

// promptsOf are the prompts, tokens as their numbers, and how many tokens there are: about four bytes of text each.
func promptsOf(raw json.RawMessage) (prompts []string, tokens int) {
	var text string
	var texts []string
	var list []int
	var lists [][]int
	switch {
	case json.Unmarshal(raw, &text) == nil && text != "":
		texts = []string{text}
	case json.Unmarshal(raw, &texts) == nil:
	case json.Unmarshal(raw, &list) == nil:
		return []string{fmt.Sprint(list)}, len(list)
	case json.Unmarshal(raw, &lists) == nil:
		for _, l := range lists {
			prompts, tokens = append(prompts, fmt.Sprint(l)), tokens+len(l)
		}
		return prompts, tokens
	}
	for _, t := range texts {
		tokens += 1 + len(t)/4
	}
	return texts, tokens
}

// choice is one choice of a body, or a piece of one.
func (q *asked) choice(index int, text, finish string) string {
	probs := "null"
	if q.probs {
		probs = fmt.Sprintf(`{"tokens":[%s],"token_logprobs":[-0.5],"top_logprobs":null,"text_offset":[0]}`, quote(text))
	}
	return fmt.Sprintf(`{"text":%s,"index":%d,"logprobs":%s,"finish_reason":%s}`, quote(text), index, probs, finish)
}

// finish is why a choice ended.
func (b *Behaviour) finish() string { return quote(or(b.Stop, "stop")) }

// says is the text that a prompt gets before the completion.
func (q *asked) says(index int) string {
	if !q.echo {
		return ""
	}
	return q.prompts[index/q.choices]
}

func promptedUsage(u Usage) string {
	in := u.Input + u.Cached
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, in, u.Output, in+u.Output)
}

func promptedID(n int64) string { return "cmpl-" + opaque(fmt.Sprint("completion", n), 29) }

func (prompted) body(q *asked, b *Behaviour, n int64) []byte {
	choices := make([]string, q.choices*len(q.prompts))
	for i := range choices {
		choices[i] = q.choice(i, q.says(i)+strings.Join(b.pieces(), ""), b.finish())
	}
	usage := ""
	if b.Usage == nil || !b.Usage.Missing {
		usage = `,"usage":` + promptedUsage(b.count(q))
	}
	return []byte(fmt.Sprintf(`{"id":%s,"object":"text_completion","created":%d,"model":%s,"choices":[%s]%s%s}`+"\n",
		quote(promptedID(n)), openAICreated, quote(or(b.AnswerModel, q.model)), strings.Join(choices, ","), usage, extra(b)))
}

func (prompted) stream(q *asked, b *Behaviour, n int64) (frames []frame) {
	head := fmt.Sprintf(`data: {"id":%s,"object":"text_completion","created":%d,"choices":[`, quote(promptedID(n)), openAICreated)
	tail := `],"model":` + quote(or(b.AnswerModel, q.model)) + extra(b)
	usage := ""
	if q.includeUsage {
		usage = `,"usage":null`
	}
	for i := range q.choices * len(q.prompts) {
		pieces := b.pieces()
		if said := q.says(i); said != "" {
			pieces = append([]string{said}, pieces...)
		}
		for _, p := range pieces {
			frames = append(frames, frame{token: true, data: head + q.choice(i, p, "null") + tail + usage + "}\n\n"})
		}
		frames = append(frames, frame{data: head + q.choice(i, "", b.finish()) + tail + usage + "}\n\n"})
	}
	if q.includeUsage && (b.Usage == nil || !b.Usage.Missing) {
		frames = append(frames, frame{usage: true, data: head + tail + `,"usage":` + promptedUsage(b.count(q)) + "}\n\n"})
	}
	return append(frames, frame{data: "data: [DONE]\n\n", last: true})
}
