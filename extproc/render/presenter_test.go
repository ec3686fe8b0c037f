package render_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/policy"
)

// newPresenter returns the presenter of a stream on a surface.
func newPresenter(surface string) *render.Presenter {
	to := &policy.Resolution{Provider: "p", Model: "m"}
	return render.NewPresenter(render.View{Surface: render.SurfaceOf(surface)}, reasoning.NewRecorder(reasoning.Dialect{}, to), true)
}

func TestATerminalSeesProgressInsteadOfThoughts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPresenter("tui")
		if p.Heartbeat() != "" {
			t.Error("a heartbeat shows progress before the model thinks")
		}
		thought := chat.Event{Kind: chat.Thought, Text: []byte("let me think about it")}
		out, visible := p.Event([]byte("before"), &thought, false)
		if visible || !strings.HasPrefix(string(out), "before: ") {
			t.Errorf("a thought: %q, visible %v", out, visible)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
		if !strings.HasPrefix(p.Heartbeat(), ": ") {
			t.Errorf("heartbeat %q", p.Heartbeat())
		}
		text := chat.Event{Kind: chat.Text, Text: []byte("so")}
		if out, visible := p.Event(nil, &text, false); !visible || len(out) > 0 || p.Heartbeat() != "" {
			t.Errorf("a text: %q, visible %v, heartbeat %q", out, visible, p.Heartbeat())
		}
	})
}

func TestEachHeldThoughtCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPresenter("tui")
		held := []chat.Event{{Kind: chat.Thought, Text: []byte("let me think")}}
		if p.HeldProgress(held) == nil {
			t.Error("no progress for a held thought")
		}
		time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock
		if got := p.HeldProgress(held); got != nil {
			t.Errorf("the same thought again: %q", got)
		}
		if out, visible := p.Event(nil, &held[0], true); visible || out != nil {
			t.Errorf("once it is released: %q, visible %v", out, visible)
		}
	})
}

func TestAChainIsPricedWhereThePricesAreKnown(t *testing.T) {
	u := &chat.Usage{Output: 100, Reasoning: 60}
	for _, known := range []bool{true, false} {
		c := newPresenter("api").Chain(u, &policy.Prices{Known: known})
		if (c.Cost.USD != nil) != known || c.Tokens != 60 {
			t.Errorf("known %v: %+v", known, c)
		}
	}
	p := newPresenter("api")
	if p.Chain(u, &policy.Prices{}) != p.Chain(&chat.Usage{}, &policy.Prices{}) {
		t.Error("a second call made another chain")
	}
	var none *render.Presenter
	if none.Heartbeat() != "" {
		t.Error("without a presenter there is no progress")
	}
}
