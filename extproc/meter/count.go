package meter

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/jsonx"
)

// bytesPerToken is the usual length of a token in bytes, for answers whose provider did not say what they took.
const bytesPerToken = 4

// Count is what one answer took so far: what its provider reported, and what was seen of it. The zero value is an answer of which
// nothing came. Not safe for concurrent use.
type Count struct {
	Reported chat.Usage
	Stop     chat.StopReason // why the answer ended; "" while it goes on
	First    time.Time       // of its first content; zero before that

	heard    chat.Usage // what was reported, where the answer is held back as far as that
	output   int64      // bytes of text, thoughts and arguments
	thoughts int64      // bytes of thoughts alone
	reported int64      // of the output, what came before the last report
}

// Hear notes a report as the provider sent it. It counts where Note gets none, as the beginning of the answer is held back.
func (c *Count) Hear(u chat.Usage) { c.heard.Merge(u) }

// Note adds an event of the answer.
func (c *Count) Note(ev *chat.Event) {
	switch ev.Kind {
	case chat.UsageInfo:
		c.Reported.Merge(ev.Usage)
		c.reported = c.output
	case chat.Stop:
		c.Stop = ev.Reason
	case chat.Thought:
		c.output += int64(len(ev.Text))
		c.thoughts += int64(len(ev.Text))
	case chat.Text, chat.ToolArgs, chat.Refusal:
		c.output += int64(len(ev.Text))
	case chat.Extra:
		if ev.ID == chat.ServiceTier {
			if tier, ok := (jsonx.Value{Raw: ev.Text}).Str(); ok {
				c.Reported.Tier = tier
			}
		}
	case chat.Start, chat.Signature, chat.Redacted, chat.ToolStart, chat.BlockStop, chat.Other, chat.Error, chat.End:
	}
	if c.First.IsZero() && ev.Kind.IsContent() {
		c.First = time.Now()
	}
}

// Complete reports whether the provider has said all that the bill needs.
func (c *Count) Complete() bool { return c.Reported.Final && c.Reported.TotalInput() > 0 }

// Total is the usage to bill: what was reported, else an estimate from what was seen. Some servers report zeros, or an object without the
// numbers. input is about how long the request is, in tokens.
func (c *Count) Total(input int64) chat.Usage {
	u := c.Reported
	if u.TotalInput() == 0 {
		u.Merge(c.heard)
	}
	if u.TotalInput() == 0 {
		u.Input, u.Estimated = input, true
	}
	if !u.Final || u.Output == 0 { // a report of no output is none, where there was some
		if n := (c.output + bytesPerToken - 1) / bytesPerToken; n > u.Output {
			u.Output, u.Estimated = n, true
		}
	}
	if u.Reasoning == 0 && c.thoughts > 0 { // D-42
		u.Reasoning, u.ReasoningEstimated = reasoning.Estimate(c.thoughts, u.Output), true
	}
	return u
}

// interrupted is Total of an answer that ends here. What came behind a report that was to be the last one is not in it.
func (c *Count) interrupted(input int64) chat.Usage {
	if c.output > c.reported {
		early := *c
		early.Reported.Final, early.heard.Final = false, false
		return early.Total(input)
	}
	return c.Total(input)
}

// Sum is what two calls used together. What either only estimated is estimated.
func Sum(u, v chat.Usage) chat.Usage {
	u.Input = add(u.Input, v.Input)
	u.Cached = add(u.Cached, v.Cached)
	u.CacheWrite = add(u.CacheWrite, v.CacheWrite)
	u.CacheWrite1h = add(u.CacheWrite1h, v.CacheWrite1h)
	u.Output = add(u.Output, v.Output)
	u.Reasoning = add(u.Reasoning, v.Reasoning)
	u.Searches = add(u.Searches, v.Searches)
	u.Estimated = u.Estimated || v.Estimated
	u.ReasoningEstimated = u.ReasoningEstimated || v.ReasoningEstimated
	u.Final = u.Final || v.Final
	u.Cost = u.Cost.Plus(v.Cost)
	return u
}
