package meter

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/jsonx"
)

// bytesPerToken is the usual number of bytes per token, for answers without reported usage.
const bytesPerToken = 4

// Count is the usage of one answer so far: reported by its provider, and measured. The zero value is an answer before its first event. Not safe for
// concurrent use.
type Count struct {
	Reported chat.Usage
	Stop     chat.StopReason // why the answer ended; "" before the end
	First    time.Time       // time of the first content; zero before

	received chat.Usage // reports received while the answer is held back
	output   int64      // bytes of text, reasoning and arguments
	thoughts int64      // bytes of reasoning alone
	reported int64      // output received before the last report
}

// Receive records a report as the provider sent it. It is used if Note gets none, because the start of the answer is held back.
func (c *Count) Receive(u chat.Usage) { c.received.Merge(u) }

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
	case chat.End:
		c.Reported.Cost, c.Reported.CostKnown = max(c.Reported.Cost, ev.Usage.Cost), c.Reported.CostKnown || ev.Usage.CostKnown
	case chat.Start, chat.Signature, chat.Redacted, chat.ToolStart, chat.BlockStop, chat.Other, chat.Error:
	}
	if c.First.IsZero() && ev.Kind.IsContent() {
		c.First = time.Now()
	}
}

// Complete reports whether the provider has reported everything that the bill needs.
func (c *Count) Complete() bool { return c.Reported.Final && c.Reported.TotalInput() > 0 }

// Total returns the usage to bill: what was reported, else an estimate from what was measured. Some servers report zeros, or an object without
// numbers. input is the estimated input in tokens.
func (c *Count) Total(input int64) chat.Usage {
	u := c.Reported
	if u.TotalInput() == 0 {
		u.Merge(c.received)
	}
	if u.TotalInput() == 0 {
		u.Input, u.Estimated = input, true
	}
	if !u.Final || u.Output == 0 { // a report of zero output is ignored if there was some
		if n := (c.output + bytesPerToken - 1) / bytesPerToken; n > u.Output {
			u.Output, u.Estimated = n, true
		}
	}
	if u.Reasoning == 0 && c.thoughts > 0 { // D-42
		u.Reasoning, u.ReasoningEstimated = reasoning.Estimate(c.thoughts, u.Output), true
	}
	return u
}

// interrupted is Total of an answer that ends here. Output after a report that was meant to be final is not included.
func (c *Count) interrupted(input int64) chat.Usage {
	if c.output > c.reported {
		early := *c
		early.Reported.Final, early.received.Final = false, false
		return early.Total(input)
	}
	return c.Total(input)
}

// Sum adds the usages of two calls. The sum is estimated if either is.
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
