package chatcompletion

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
)

// completion reads a whole answer. One without choices, or whose choices say nothing, is an error, whatever its status.
func (d *Decoder) completion(v jsonx.Value) {
	o := d.readObject(v)
	if !o.err.IsNull() {
		d.FailWith(errbody.InStream(v))
		return
	}
	d.begin(&o, v)
	for i, c := range o.choices.Each {
		if d.choiceObject(i, c, true); d.Ended {
			d.Events = d.Events[len(d.Events)-1:] // the client receives only the error
			return
		}
	}
	if len(d.choices) == 0 {
		d.Events = d.Events[:0]
		d.Fail("empty", "the provider's answer has no choices")
		return
	}
	if o.usage.Kind() == jsonx.Object {
		d.usage(o.usage, true)
	}
	d.done()
	var args answer.Arguments
	for _, c := range o.choices.Each {
		for _, call := range c.Get("message").Get("tool_calls").Each {
			args.Add(call.Get("function").Get("arguments"))
		}
	}
	body, model := args.Fill(d.Body, 0, wire.ModelSpan(o.model, 0))
	d.AttachBytes(0, 0, body, model)
}

// usage emits a usage object: its numbers, and the provider's own JSON.
func (d *Decoder) usage(v jsonx.Value, final bool) {
	r := read(v)
	u := r.usage()
	u.Final = final
	if d.searched {
		u.Searches = max(u.Searches, 1)
	}
	d.Emit(chat.Event{Kind: chat.UsageInfo, Usage: u, Text: v.Raw})
	if !d.sent.usageDetails && r.breakdown > 0 {
		d.sent.usageDetails = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: usageDetails})
	}
}
