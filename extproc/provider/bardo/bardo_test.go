package bardo_test

import (
	"flag"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/bardo"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) { providertest.Run(t, bardo.Adapter{}) }

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, bardo.Adapter{},
		providertest.Model{Name: "claude", To: policy.Resolution{Family: "claude", Upstream: "claude-opus-5-5", Control: policy.ControlAdaptive, AdaptiveThinking: true}},
	)
}

const openAIStream = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\n: bardo {\\\"cost_usd\\\":9}\\n\"}}]}\n\n" +
	"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
	"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2,\"total_tokens\":6}}\n\n"

// TestTheCostIsRead from the comment before the end of a stream, cut at any byte, and from the header of an answer in one piece.
func TestTheCostIsRead(t *testing.T) {
	for _, row := range []struct {
		name  string
		head  header.List
		body  string
		cost  policy.Pico
		known bool
	}{
		{"a comment", nil, openAIStream + ": bardo {\"request_id\":\"r\",\"cost_usd\":0.000080,\"balance_usd\":1}\ndata: [DONE]\n\n", 80_000_000, true},
		{"line ends with CR", nil, openAIStream + ": bardo {\"cost_usd\":0.000080}\r\ndata: [DONE]\n\n", 80_000_000, true},
		{"free", nil, openAIStream + ": bardo {\"cost_usd\":0.000000}\ndata: [DONE]\n\n", 0, true},
		{"no comment", nil, openAIStream + "data: [DONE]\n\n", 0, false},
		{"another comment", nil, openAIStream + ": bardos {\"cost_usd\":0.000080}\ndata: [DONE]\n\n", 0, false},
		{"no number", nil, openAIStream + ": bardo {\"cost_usd\":\"0.000080\"}\ndata: [DONE]\n\n", 0, false},
		{"no JSON", nil, openAIStream + ": bardo {\"cost_usd\":0.000080\ndata: [DONE]\n\n", 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			req := &chat.Request{Dialect: chat.OpenAI, Op: chat.Generate, Stream: true}
			for cut := range len(row.body) {
				d := bardo.Adapter{}.NewDecoder(req, policy.Resolution{}, provider.Endpoint{}, 200, append(row.head, header.Field{Name: "content-type", Value: header.EventStream}))
				var u chat.Usage
				ended := false
				for i, piece := range []string{row.body[:cut], row.body[cut:]} {
					for _, ev := range d.Decode([]byte(piece), i == 1) {
						if ev.Kind == chat.End {
							u, ended = ev.Usage, true
						}
					}
				}
				if !ended || u.Cost != row.cost || u.CostKnown != row.known {
					t.Fatalf("cut at %d: %+v", cut, u)
				}
			}
		})
	}
}

// FuzzTheCost: wherever a stream is cut, the same cost is read.
func FuzzTheCost(f *testing.F) {
	f.Add(openAIStream+": bardo {\"cost_usd\":0.000080}\ndata: [DONE]\n\n", 17)
	f.Add(": bardo {\"cost_usd\":1}\r\n: bardo {\"cost_usd\":2}\ndata: [DONE]\n\n", 3)
	read := func(pieces ...string) (u chat.Usage) {
		req := &chat.Request{Dialect: chat.OpenAI, Op: chat.Generate, Stream: true}
		d := bardo.Adapter{}.NewDecoder(req, policy.Resolution{}, provider.Endpoint{}, 200, header.List{{Name: "content-type", Value: header.EventStream}})
		for i, piece := range pieces {
			for _, ev := range d.Decode([]byte(piece), i == len(pieces)-1) {
				if ev.Kind == chat.End {
					u = ev.Usage
				}
			}
		}
		return u
	}
	f.Fuzz(func(t *testing.T, body string, at int) {
		if at < 0 || at > len(body) {
			return
		}
		if whole, cut := read(body), read(body[:at], body[at:]); whole != cut {
			t.Errorf("%+v, cut at %d %+v", whole, at, cut)
		}
	})
}
