package extproc

import (
	"context"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// answer turns one attempt's answer into the client's bytes, and keeps count of it.
type answer struct {
	x      *exchange
	res    policy.Resolution
	spoken chat.Dialect // that the answer was given in
	dec    provider.Decoder
	calls  *toolcall.Reader // of a model that calls tools in its text; else nil
	enc    wire.Encoder
	stream bool

	out     []byte // encoded and not yet taken
	end     []byte // the terminator (stream) or the whole body (JSON), once the answer is complete
	content bool   // something of the answer was seen
	failed  *chat.ProviderError
	broken  error // a layer's, which looked at the answer
	ended   bool
	reason  chat.StopReason

	id       string // the provider's own of the answer
	usage    chat.Usage
	outBytes int64 // of text, thoughts and arguments, to estimate what a cut stream delivered
}

// feed decodes a chunk. Afterwards exactly one holds: the answer goes on, it failed, a layer broke it, or it ended.
func (a *answer) feed(ctx context.Context, chunk []byte, end bool) {
	events := a.dec.Decode(chunk, end)
	for i := range events {
		if a.over() {
			return
		}
		a.read(ctx, &events[i])
	}
}

// read looks for calls of tools in what the model says. What is held back meanwhile is content: the provider does answer.
func (a *answer) read(ctx context.Context, ev *chat.Event) {
	if a.calls == nil {
		a.pass(ctx, ev)
		return
	}
	a.content = a.content || ev.Kind.IsContent()
	events := a.calls.Read(ev)
	for i := range events {
		if a.over() {
			return
		}
		a.pass(ctx, &events[i])
	}
}

func (a *answer) over() bool { return a.failed != nil || a.broken != nil || a.ended }

// pass shows an event to the layers that watch the answer, and takes what they make of it.
func (a *answer) pass(ctx context.Context, ev *chat.Event) {
	if !a.x.Watched() {
		a.take(ev)
		return
	}
	if ev.Kind == chat.End {
		a.x.Served = a.served()
	}
	events, err := a.x.Response(ctx, ev)
	a.broken = err
	for i := range events {
		if a.over() {
			return
		}
		a.take(&events[i])
	}
}

// served is who gave the answer, and what it took.
func (a *answer) served() *cache.Served {
	u := a.total(a.x.Request.InputTokens)
	return &cache.Served{By: a.res, Spoken: a.spoken, Usage: u, Cost: a.x.costOf(&a.res, &u), Degraded: a.x.lostAt(a.res.Provider)}
}

func (a *answer) take(ev *chat.Event) {
	switch ev.Kind {
	case chat.Error:
		a.failed = ev.Err
		return
	case chat.End:
		a.ended = true
		a.end = a.enc.Append(a.end, ev)
		return
	case chat.Start:
		a.id = ev.ID
	case chat.UsageInfo:
		a.usage.Merge(ev.Usage)
	case chat.Stop:
		a.reason = ev.Reason
	case chat.Text, chat.Thought, chat.ToolArgs, chat.Refusal:
		a.outBytes += int64(len(ev.Text))
	case chat.Signature, chat.Redacted, chat.ToolStart, chat.BlockStop, chat.Other, chat.Extra:
	}
	a.content = a.content || ev.Kind.IsContent()
	a.out = a.enc.Append(a.out, ev)
}

// drain returns what is ready for the client. It is valid until the next feed.
func (a *answer) drain() []byte {
	b := a.out
	a.out = a.out[:0]
	return b
}

// bytesPerToken is the usual length of a token in bytes, for answers whose provider did not live to count them.
const bytesPerToken = 4

// total is the usage to bill. What the provider did not say is estimated from what passed.
func (a *answer) total(estimatedInput int64) chat.Usage {
	u := a.usage
	if u.TotalInput() == 0 {
		u.Input, u.Estimated = estimatedInput, true
	}
	if !u.Final {
		if n := (a.outBytes + bytesPerToken - 1) / bytesPerToken; n > u.Output {
			u.Output, u.Estimated = n, true
		}
	}
	return u
}
