package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
)

// layer notes that it ran, and tags the text of answers with its name.
type layer struct {
	name   string
	ran    *[]string
	answer bool
	err    error
}

func (l layer) Name() string { return l.name }

func (l layer) Request(_ context.Context, x *pipeline.Exchange) error {
	*l.ran = append(*l.ran, l.name)
	if l.answer {
		x.Answer = []chat.Event{{Kind: chat.End}}
	}
	return l.err
}

func (l layer) Response(_ context.Context, _ *pipeline.Exchange, ev chat.Event) ([]chat.Event, error) {
	ev.Text = append(append([]byte(nil), ev.Text...), l.name...)
	return []chat.Event{ev}, nil
}

func TestLayersRunInOrderAndAnswersPassInReverse(t *testing.T) {
	var ran []string
	p := pipeline.New(layer{name: "a", ran: &ran}, layer{name: "b", ran: &ran})
	x := &pipeline.Exchange{}
	if err := p.Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ran, ""); got != "ab" {
		t.Errorf("layers ran as %q, want ab", got)
	}
	if len(x.Log) != 2 || x.Log[0].Layer != "a" || x.Log[1].Layer != "b" {
		t.Errorf("log is %+v, want one entry per layer", x.Log)
	}
	evs, err := p.Response(t.Context(), x, []chat.Event{{Kind: chat.Text}})
	if err != nil || len(evs) != 1 || string(evs[0].Text) != "ba" {
		t.Errorf("answer passed as %v, %v; want the last layer first", evs, err)
	}
}

func TestALayerThatAnswersEndsTheRun(t *testing.T) {
	var ran []string
	p := pipeline.New(layer{name: "cache", ran: &ran, answer: true}, layer{name: "later", ran: &ran})
	if err := p.Request(t.Context(), &pipeline.Exchange{}); err != nil {
		t.Fatal(err)
	}
	if len(ran) != 1 {
		t.Errorf("ran %v, want only the layer that answered", ran)
	}
}

func TestARefusalKeepsItsFault(t *testing.T) {
	var ran []string
	p := pipeline.New(layer{name: "guard", ran: &ran, err: fault.Newf(fault.InvalidRequest, "no")})
	err := p.Request(t.Context(), &pipeline.Exchange{})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Errorf("error is %v, want the layer's fault", err)
	}
}
