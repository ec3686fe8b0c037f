package rounds_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire"
)

// finder is a layer with the tools find and run; calls of run are translated to the client's tool.
type finder struct{}

func (finder) Translate(_ *pipeline.Exchange, c *chat.ToolCall) (own chat.ToolCall, ok bool) {
	return chat.ToolCall{ID: c.ID, Name: "real", Args: c.Args}, c.Name == "run"
}

func (finder) Answer(context.Context, *pipeline.Exchange, *chat.ToolCall, int) pipeline.Result {
	return pipeline.Result{Text: "found"}
}

// client collects the events that a gate forwards.
type client struct {
	held []chat.Event
	over bool
}

func (c *client) Take(_ context.Context, ev *chat.Event) {
	c.held = append(c.held, ev.Detached())
	c.over = c.over || ev.Kind == chat.End
}

func (c *client) IsOver() bool { return c.over }

// gated returns a gate of a request with four rounds, of which done are finished with blocks content blocks, and its client.
func gated(done, blocks int) (*rounds.Gate, *client) {
	v := &request.View{Config: &runtime.Config{}}
	v.Request = &chat.Request{Choices: 1}
	v.AnswerCalls("l4", finder{}, pipeline.MaxRounds, "find", "run")
	c := &client{}
	g := &rounds.Gate{
		View: v, State: &rounds.State{Done: done, Blocks: blocks}, Count: &meter.Count{}, Held: new(int64), Sink: c,
		Before: func() chat.Usage { return chat.Usage{} },
	}
	g.Begin()
	return g, c
}

func toolCall(index int, name, args string) []chat.Event {
	return []chat.Event{
		{Kind: chat.ToolStart, Index: index, Tool: chat.ToolCall{ID: fmt.Sprint("c", index), Name: name}},
		{Kind: chat.ToolArgs, Index: index, Text: []byte(args)},
		{Kind: chat.BlockStop, Index: index},
	}
}

func textOf(index int, text string) []chat.Event {
	return []chat.Event{{Kind: chat.Text, Index: index, Text: []byte(text)}, {Kind: chat.BlockStop, Index: index}}
}

// answerOf returns the events of an answer with content.
func answerOf(stop chat.StopReason, content ...[]chat.Event) []chat.Event {
	out := []chat.Event{{Kind: chat.Start, ID: "x"}}
	for _, c := range content {
		out = append(out, c...)
	}
	return append(out, chat.Event{Kind: chat.Stop, Reason: stop}, chat.Event{Kind: chat.UsageInfo, Usage: chat.Usage{Input: 5, Output: 1, Final: true}}, chat.Event{Kind: chat.End})
}

// TestWhatAGateLetsPass: text and the client's calls, with the client's block numbers; another round follows, or the answer ends.
func TestWhatAGateLetsPass(t *testing.T) {
	for _, row := range []struct {
		about  string
		events []chat.Event
		done   int
		again  bool
		want   string
	}{
		{"text alone", answerOf(chat.StopEnd, textOf(0, "a")), 0, false, "start 0.0:a 0.0| stop=end used=5/1 end"},
		{"a search", answerOf(chat.StopTool, textOf(0, "a"), toolCall(1, "find", "{}")), 0, true, "start 0.0:a 0.0| "},
		{"a search that the provider did not stop for", answerOf(chat.StopEnd, toolCall(0, "find", "{}")), 0, true, ""},
		{"a search without a round left", answerOf(chat.StopTool, textOf(0, "a"), toolCall(1, "find", "{}")), 4, false, "start 0.0:a 0.0| stop=end used=5/1 end"},
		{"a search that was cut", answerOf(chat.StopLength, textOf(0, "a"), toolCall(1, "find", `{"q`)), 0, false, "start 0.0:a 0.0| stop=length used=5/1 end"},
		{"a call that is translated", answerOf(chat.StopTool, toolCall(0, "run", "{}")), 0, false, "start real({}) 0.0| stop=tool used=5/1 end"},
		{"without arguments", answerOf(chat.StopTool, []chat.Event{toolCall(0, "run", "")[0]}), 0, false, "start real({}) 0.0| stop=tool used=5/1 end"},
		{"both kinds", answerOf(chat.StopTool, toolCall(0, "find", "{}"), toolCall(1, "own", "{}"), toolCall(2, "run", "[]")), 0, false, "start own({}) 0.0| real([]) 0.1| stop=tool used=5/1 end"},
	} {
		g, c := gated(row.done, 0)
		for i := range row.events {
			g.Read(t.Context(), &row.events[i])
		}
		if got := spellCalls(c.held); got != row.want || g.Again != row.again || !c.over && !g.Again {
			t.Errorf("%s: goes on: %v\ngot  %s\nwant %s", row.about, g.Again, got, row.want)
		}
	}
}

// TestWhatIsKnownOfABlockComesWithIt: early events about a block are forwarded before it, with its new number, also in a later round. Those about a call that the
// gateway executes are dropped with the call.
func TestWhatIsKnownOfABlockComesWithIt(t *testing.T) {
	ahead := func(index int, id string) []chat.Event {
		return []chat.Event{{Kind: chat.Extra, ID: chat.ItemID, Index: index, Text: []byte(id), Redundant: true}}
	}
	for _, later := range []bool{false, true} {
		g, c := gated(1, 3)
		if later {
			g.State.Encoder = struct{ wire.Encoder }{}
		}
		events := answerOf(chat.StopTool, ahead(0, "thought"), []chat.Event{{Kind: chat.Thought, Text: []byte("hm")}, {Kind: chat.BlockStop}},
			ahead(1, "found"), toolCall(1, "find", "{}"), ahead(2, "message"), textOf(2, "a"), ahead(3, "called"), toolCall(3, "run", "{}"))
		for i := range events {
			g.Read(t.Context(), &events[i])
		}
		var got []string
		for i := range c.held {
			if ev := &c.held[i]; ev.Kind == chat.Extra {
				got = append(got, fmt.Sprintf("%s:%d,%d", ev.Text, ev.Index, c.held[i+1].Index))
			}
		}
		if want := "thought:3,3 message:4,4 called:5,5"; strings.Join(got, " ") != want {
			t.Errorf("later %v: %q, want %s", later, got, want)
		}
	}
}

// spellCalls formats events in one line: choice and block of content, names and arguments of calls.
func spellCalls(events []chat.Event) string {
	var b strings.Builder
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case chat.Start:
			b.WriteString("start ")
		case chat.Text:
			fmt.Fprintf(&b, "%d.%d:%s ", ev.Choice, ev.Index, ev.Text)
		case chat.ToolStart:
			b.WriteString(ev.Tool.Name)
		case chat.ToolArgs:
			fmt.Fprintf(&b, "(%s) ", ev.Text)
		case chat.BlockStop:
			fmt.Fprintf(&b, "%d.%d| ", ev.Choice, ev.Index)
		case chat.Stop:
			fmt.Fprintf(&b, "stop=%s ", ev.Reason)
		case chat.UsageInfo:
			fmt.Fprintf(&b, "used=%d/%d ", ev.Usage.Input, ev.Usage.Output)
		case chat.End:
			b.WriteString("end")
		default:
			fmt.Fprintf(&b, "?%d ", ev.Kind)
		}
	}
	return b.String()
}

// TestAnyAnswerThroughAGateIsOne: for any blocks in any order, the client's events begin once, end once, use no block numbers of earlier rounds, and have no
// calls of layers' tools.
func TestAnyAnswerThroughAGateIsOne(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		g, c := gated(0, rng.IntN(3))
		events := []chat.Event{{Kind: chat.Start}}
		for range rng.IntN(12) {
			index := rng.IntN(4)
			events = append(events, [][]chat.Event{
				textOf(index, "t")[:1+rng.IntN(2)],
				toolCall(index, []string{"find", "run", "own"}[rng.IntN(3)], "{}")[:1+rng.IntN(3)],
				{{Kind: chat.BlockStop, Index: index}},
				{{Kind: chat.UsageInfo, Usage: chat.Usage{Output: 1}}},
				{{Kind: chat.Extra, ID: "e", Index: index, Text: []byte("1")}},
				{{Kind: chat.Other}},
			}[rng.IntN(6)]...)
		}
		events = append(events, chat.Event{Kind: chat.Stop, Reason: chat.StopTool}, chat.Event{Kind: chat.End})
		for i := range events {
			g.Read(t.Context(), &events[i])
		}
		if !c.over && !g.Again {
			t.Fatalf("%d: it does not end", seed)
		}
		for i := range c.held {
			switch ev := &c.held[i]; {
			case ev.Kind == chat.Start && i > 0, ev.Kind == chat.ToolStart && g.View.IsReserved(ev.Tool.Name), ev.Kind == chat.End && i < len(c.held)-1:
				t.Fatalf("%d: %s", seed, spellCalls(c.held))
			case (ev.Kind == chat.Text || ev.Kind == chat.ToolStart || ev.Kind == chat.BlockStop) && ev.Index < g.State.Blocks:
				t.Fatalf("%d: block %d is an earlier round's: %s", seed, ev.Index, spellCalls(c.held))
			}
		}
	}
}
