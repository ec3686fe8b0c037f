package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// answer turns one attempt's answer into the client's bytes, and keeps count of it.
type answer struct {
	res    policy.Resolution
	dec    provider.Decoder
	enc    wire.Encoder
	stream bool

	out     []byte // encoded and not yet taken
	end     []byte // the terminator (stream) or the whole body (JSON), once the answer is complete
	content bool   // something of the answer was seen
	failed  *chat.ProviderError
	ended   bool
	reason  chat.StopReason

	usage    chat.Usage
	outBytes int64 // of text, thoughts and arguments, to estimate what a cut stream delivered
}

// feed decodes a chunk. Afterwards exactly one holds: the answer goes on, it failed, or it ended.
func (a *answer) feed(chunk []byte, end bool) {
	for _, ev := range a.dec.Decode(chunk, end) {
		if a.failed != nil || a.ended {
			return
		}
		a.take(&ev)
	}
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
	case chat.UsageInfo:
		a.usage.Merge(ev.Usage)
	case chat.Stop:
		a.reason = ev.Reason
	case chat.Text, chat.Thought, chat.ToolArgs, chat.Refusal:
		a.outBytes += int64(len(ev.Text))
	case chat.Start, chat.Signature, chat.Redacted, chat.ToolStart, chat.BlockStop, chat.Other, chat.Extra:
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
