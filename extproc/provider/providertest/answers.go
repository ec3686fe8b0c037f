package providertest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/anthropic/message"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
)

// answers are the contents of the sample answers, in every dialect and form.
var answers = map[string]string{
	"text":  "text \"Grüße, “world”!\\n\"\nstop end\n30 in (20 cached), 7 out\n",
	"tools": "thought \"Two calls.\"\ntext \"Looking.\"\ncall call_1 weather {\"city\":\"Köln\"}\ncall call_2 now {}\nstop tool\n50 in (0 cached), 40 out\n",
}

// form is one form of an answer.
type form struct {
	stream bool
	suffix string
	header header.List
}

var forms = []form{
	{false, ".json", header.List{{Name: "content-type", Value: "application/json"}}},
	{true, ".sse", header.List{{Name: "content-type", Value: "text/event-stream"}}},
}

// testAnswers checks that the client reads what the provider wrote; in the same dialect, the provider's own bytes.
func (p *pairing) testAnswers(t *testing.T) {
	for name, want := range answers {
		for _, f := range forms {
			t.Run(name+f.suffix, func(t *testing.T) {
				body := sample(t, p.format, name+f.suffix)
				out := p.through(t, f, upstreamModel, body)
				if p.same() && !bytes.Equal(out, body) {
					t.Errorf("the same dialect changed\n%s\nto\n%s", body, out)
				}
				if got := readAnswer(t, p.client, f, out); got != want {
					t.Errorf("the client reads\n%s\nwant\n%s\nin\n%s", got, want, out)
				}
				renamed := p.through(t, f, shownModel, body)
				if !bytes.Contains(renamed, []byte(shownModel)) || bytes.Contains(renamed, []byte(upstreamModel)) {
					t.Errorf("the client does not read its own model's name in\n%s", renamed)
				}
			})
		}
	}
}

// testCuts checks K-38: the result does not depend on where the body is cut. A last event without its blank line counts.
func (p *pairing) testCuts(t *testing.T) {
	for name, want := range answers {
		for _, f := range forms {
			body := sample(t, p.format, name+f.suffix)
			whole := p.through(t, f, shownModel, body)
			for cut := 0; cut < len(body); cut += stride(cut) {
				if got := p.through(t, f, shownModel, body[:cut], body[cut:]); !bytes.Equal(got, whole) {
					t.Fatalf("%s%s cut at %d gave\n%s\nwant\n%s", name, f.suffix, cut, got, whole)
				}
			}
			unterminated := bytes.TrimRight(body, "\n")
			if got := readAnswer(t, p.client, f, p.through(t, f, shownModel, unterminated)); got != want {
				t.Errorf("%s%s without its last line end: the client reads\n%s", name, f.suffix, got)
			}
		}
	}
}

// stride is the distance between cuts: one byte at the beginning, then a sample. The formats' own tests cut at every byte.
func stride(cut int) int {
	const beginning, sample = 256, 7
	if cut < beginning {
		return 1
	}
	return sample
}

// testTruncation checks that a truncated answer is an error and never looks complete.
func (p *pairing) testTruncation(t *testing.T) {
	for name := range answers {
		for _, f := range forms {
			body := sample(t, p.format, name+f.suffix)
			for cut := 0; cut < len(body)/2; cut += stride(cut) {
				events := p.decode(t, f, 200, body[:cut])
				if last := events[len(events)-1]; last.Kind != chat.Error || last.Err == nil || last.Err.Status < 500 {
					t.Fatalf("%s%s ends after %d bytes with an event of kind %d", name, f.suffix, cut, last.Kind)
				}
			}
		}
	}
}

// testErrors checks that an error answer is one Error event, whatever its body, and that an error inside a stream ends it.
func (p *pairing) testErrors(t *testing.T) {
	h := header.List{{Name: "content-type", Value: "application/json"}, {Name: "retry-after", Value: "9"}}
	rows := []struct {
		status        int
		body, message string
	}{
		{400, `{"error":{"message":"bad field","type":"invalid_request_error","param":"x","code":null}}`, "bad field"},
		{401, `{"type":"error","error":{"type":"authentication_error","message":"no key"}}`, "no key"},
		{429, `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}`, "slow"},
		{502, "<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway"},
		{503, "", ""},
	}
	for _, r := range rows {
		for _, f := range forms {
			f.header = h
			events := p.decode(t, f, r.status, []byte(r.body))
			if len(events) != 1 || events[0].Kind != chat.Error {
				t.Fatalf("%d %s gave %d events", r.status, r.body, len(events))
			}
			if e := events[0].Err; e.Status != r.status || e.Message != r.message || e.RetryAfter != 9 {
				t.Errorf("%d %s gave %+v", r.status, r.body, e)
			}
		}
	}
	overloaded := []byte("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n")
	events := p.decode(t, forms[1], 200, overloaded)
	if last := events[len(events)-1]; last.Kind != chat.Error || last.Err.Status < 500 || last.Err.Message != "busy" {
		t.Errorf("an error inside a stream gave %+v", last)
	}
}

func (p *pairing) decoder(t *testing.T, f form, status int) provider.Decoder {
	t.Helper()
	return p.adapter.NewDecoder(p.request(t, f.stream), resolution(), p.at, status, f.header)
}

// decode returns all events of a body that arrives in one piece.
func (p *pairing) decode(t *testing.T, f form, status int, body []byte) []chat.Event {
	t.Helper()
	events := p.decoder(t, f, status).Decode(body, true)
	if len(events) == 0 {
		t.Fatalf("%q gave no event", body)
	}
	return events
}

// through decodes an answer in pieces, and encodes it for the client. Each piece is overwritten after use.
func (p *pairing) through(t *testing.T, f form, model string, pieces ...[]byte) []byte {
	t.Helper()
	d := p.decoder(t, f, 200)
	enc := p.client.NewEncoder(wire.Options{
		Same: p.same(), Stream: f.stream, Model: model, RequestID: "r1", ShowUsage: true, Created: 1700000000,
	})
	var out []byte
	for i, piece := range pieces {
		lent := bytes.Clone(piece)
		for _, ev := range d.Decode(lent, i == len(pieces)-1) {
			out = enc.Append(out, &ev)
		}
		clear(lent)
	}
	return out
}

// clientView is what a client reads from an answer.
type clientView struct {
	text, thought strings.Builder
	calls         []string
	reason        chat.StopReason
	usage         chat.Usage
	end           chat.EventKind
}

// readAnswer reads an answer as a client of dialect d does.
func readAnswer(t *testing.T, d wire.Dialect, f form, body []byte) string {
	t.Helper()
	var dec provider.Decoder
	req := &chat.Request{Dialect: d.Name(), Stream: f.stream, Choices: 1}
	switch d.(type) {
	case openai.Dialect:
		dec = chatcompletion.NewDecoder(req, 200, f.header)
	case anthropic.Dialect:
		dec = message.NewDecoder(req, 200, f.header)
	case gemini.Dialect:
		dec = gemini.NewDecoder(req, 200, f.header)
	}
	var h clientView
	for _, ev := range dec.Decode(body, true) {
		h.note(&ev)
	}
	return h.String()
}

func (h *clientView) note(ev *chat.Event) {
	h.end = ev.Kind
	switch ev.Kind {
	case chat.Text:
		h.text.Write(ev.Text)
	case chat.Thought:
		h.thought.Write(ev.Text)
	case chat.ToolStart:
		h.calls = append(h.calls, ev.Tool.ID+" "+ev.Tool.Name+" ")
	case chat.ToolArgs:
		h.calls[len(h.calls)-1] += string(ev.Text)
	case chat.Stop:
		h.reason = ev.Reason
	case chat.UsageInfo:
		h.usage.Merge(ev.Usage)
	case chat.Start, chat.Signature, chat.Redacted, chat.Refusal, chat.BlockStop, chat.Error, chat.End, chat.Other, chat.Extra:
	}
}

func (h *clientView) String() string {
	var b strings.Builder
	if h.thought.Len() > 0 {
		fmt.Fprintf(&b, "thought %q\n", h.thought.String())
	}
	fmt.Fprintf(&b, "text %q\n", h.text.String())
	for _, c := range h.calls {
		if strings.HasSuffix(c, " ") { // Anthropic's clients read missing arguments as an empty object
			c += "{}"
		}
		fmt.Fprintf(&b, "call %s\n", c)
	}
	fmt.Fprintf(&b, "stop %s\n", h.reason)
	fmt.Fprintf(&b, "%d in (%d cached), %d out\n", h.usage.TotalInput(), h.usage.Cached, h.usage.Output)
	if h.end != chat.End {
		b.WriteString("and no end\n")
	}
	return b.String()
}
