package responses

import (
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// failureCode returns the code of a failed response: a value of OpenAI's enumeration ResponseErrorCode, or the provider's own code. The
// preceding "error" event has the gateway's code.
func failureCode(f *fault.Fault) string {
	switch {
	case f.Code != "":
		return f.Code
	case f.Kind == fault.RateLimited:
		return "rate_limit_exceeded"
	case f.HTTPStatus()/100 == 4:
		return "invalid_prompt"
	}
	return "server_error"
}

// appendResponse appends the whole response in its current state. f is the reason of a failure; nil if the response did not fail.
func (e *encoder) appendResponse(dst []byte, status string, f *fault.Fault) []byte {
	if e.id == "" {
		e.start(&chat.Event{})
	}
	dst = jsonx.AppendString(append(dst, `{"id":`...), e.id)
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), e.opts.Created, 10)
	dst = append(append(append(dst, `,"status":"`...), status...), `","background":false,"error":`...)
	if f != nil {
		dst = jsonx.AppendString(append(dst, `{"code":`...), failureCode(f))
		dst = append(jsonx.AppendString(append(dst, `,"message":`...), f.Public), '}')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"incomplete_details":`...)
	if status == incomplete {
		dst = append(append(append(dst, `{"reason":"`...), e.unfinished()...), `"}`...)
	} else {
		dst = append(dst, "null"...)
	}
	dst = jsonx.AppendString(append(dst, `,"model":`...), e.model)
	dst = e.appendOutput(append(dst, `,"output":`...), status)
	dst = e.appendEchoed(dst)
	dst = append(dst, `,"usage":`...)
	if status == inProgress || e.usage == (chat.Usage{}) && e.ownUsage == nil {
		dst = append(dst, "null"...)
	} else {
		dst = e.appendUsage(dst)
	}
	return append(wire.AppendOwn(dst, e.own), '}')
}

func (e *encoder) appendOutput(dst []byte, status string) []byte {
	dst = append(dst, '[')
	for i, it := range e.items {
		if status == inProgress {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		own := it.status
		if !it.closed {
			own = incomplete
		}
		dst = it.append(dst, own)
	}
	return append(dst, ']')
}

// echoed are the members of the request that the response repeats, and their values if the request lacks them.
var echoed = [...]struct{ key, defaultValue string }{
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", "null"},
	{"metadata", "{}"},
	{"parallel_tool_calls", "true"},
	{"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", "null"},
	{"temperature", "1.0"},
	{"text", `{"format":{"type":"text"},"verbosity":"medium"}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", "0"},
	{"top_p", "1.0"},
	{"truncation", `"disabled"`},
	{"user", "null"},
}

// appendEchoed appends the members of the request that the response repeats. store is always false: the gateway stores no responses.
func (e *encoder) appendEchoed(dst []byte) []byte {
	for i := range echoed {
		m := &echoed[i]
		dst = append(append(append(dst, `,"`...), m.key...), `":`...)
		var v jsonx.Value
		if e.opts.Request != nil {
			v = e.opts.Request.Doc.Get(m.key)
		}
		if v.IsNull() {
			dst = append(dst, m.defaultValue...)
			continue
		}
		dst = wire.AppendLine(dst, v.Raw)
	}
	dst = append(dst, `,"previous_response_id":null,"store":false,"service_tier":`...)
	if e.tier != nil {
		return wire.AppendLine(dst, e.tier)
	}
	return append(dst, `"default"`...)
}

func (e *encoder) appendUsage(dst []byte) []byte {
	if e.ownUsage != nil {
		return wire.AppendLine(dst, e.ownUsage)
	}
	u := &e.usage
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), u.TotalInput(), 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":`...), u.CacheWrite+u.CacheWrite1h, 10)
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), u.Output, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), u.TotalInput()+u.Output, 10)
	return append(dst, '}')
}

// append appends the item. An item in progress is empty.
func (it *item) append(dst []byte, status string) []byte {
	if it.kind == foreign {
		return wire.AppendLine(dst, it.whole)
	}
	dst = jsonx.AppendString(append(dst, `{"id":`...), it.id)
	switch it.kind {
	case message:
		dst = append(dst, `,"type":"message","role":"assistant"`...)
		if it.phase != nil {
			dst = wire.AppendLine(append(dst, `,"phase":`...), it.phase)
		}
		dst = it.appendParts(append(dst, `,"content":`...), status, false)
	case reasoning:
		dst = it.appendParts(append(dst, `,"type":"reasoning","summary":`...), status, false)
		if it.hasRaw() && status != inProgress {
			dst = it.appendParts(append(dst, `,"content":`...), status, true)
		}
		if it.seal != nil && status != inProgress {
			dst = jsonx.AppendString(append(dst, `,"encrypted_content":`...), it.seal)
		}
	case functionCall, customCall:
		dst = it.appendCall(dst, status)
	case picture:
		dst = it.appendPicture(dst, status)
	case foreign:
	}
	return append(append(append(dst, `,"status":"`...), status...), `"}`...)
}

// appendPicture appends the members of an image. The type of an item's image is one of OpenAI's names: png.
func (it *item) appendPicture(dst []byte, status string) []byte {
	dst = append(dst, `,"type":"image_generation_call","output_format":`...)
	dst = jsonx.AppendString(dst, strings.TrimPrefix(it.image.Media, "image/"))
	if status == inProgress {
		return append(dst, `,"result":null`...)
	}
	return jsonx.AppendString(append(dst, `,"result":`...), it.image.Data)
}

func (it *item) appendCall(dst []byte, status string) []byte {
	kind := `,"type":"function_call","call_id":`
	if it.kind == customCall {
		kind = `,"type":"custom_tool_call","call_id":`
	}
	dst = jsonx.AppendString(append(dst, kind...), it.call.ID)
	dst = jsonx.AppendString(append(dst, `,"name":`...), it.call.Name)
	if it.group != "" {
		dst = jsonx.AppendString(append(dst, `,"namespace":`...), it.group)
	}
	_, member := it.argsEvent()
	dst = append(append(append(dst, `,"`...), member...), `":`...)
	if status == inProgress {
		return append(dst, `""`...)
	}
	return jsonx.AppendString(dst, it.args)
}

func (it *item) hasRaw() bool {
	for i := range it.parts {
		if it.parts[i].raw && len(it.parts[i].text) > 0 {
			return true
		}
	}
	return false
}

// appendParts appends an item's parts: those of reasoning_text if raw is set, else the others.
func (it *item) appendParts(dst []byte, status string, raw bool) []byte {
	dst = append(dst, '[')
	first := true
	for i := range it.parts {
		p := &it.parts[i]
		if status == inProgress || p.raw != raw || it.kind == reasoning && len(p.text) == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = p.append(dst, false)
	}
	return append(dst, ']')
}

// append appends the part, without its content if empty is set.
func (p *part) append(dst []byte, empty bool) []byte {
	text := p.text
	if empty {
		text = nil
	}
	switch {
	case p.kind == chat.Refusal:
		return append(jsonx.AppendString(append(dst, `{"type":"refusal","refusal":`...), text), '}')
	case p.kind == chat.Thought && p.raw:
		return append(jsonx.AppendString(append(dst, `{"type":"reasoning_text","text":`...), text), '}')
	case p.kind == chat.Thought:
		return append(jsonx.AppendString(append(dst, `{"type":"summary_text","text":`...), text), '}')
	}
	notes, probs := p.notes, p.logprobs
	if empty {
		notes, probs = nil, nil
	}
	dst = append(dst, `{"type":"output_text","annotations":[`...)
	for i, n := range notes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendLine(dst, n)
	}
	dst = appendJoined(append(dst, `],"logprobs":`...), probs)
	return append(jsonx.AppendString(append(dst, `,"text":`...), text), '}')
}

// appendJoined appends the concatenation of several arrays.
func appendJoined(dst []byte, arrays [][]byte) []byte {
	dst = append(dst, '[')
	n := len(dst)
	for _, a := range arrays {
		for _, v := range (jsonx.Value{Raw: a}).Each {
			if len(dst) > n {
				dst = append(dst, ',')
			}
			dst = wire.AppendLine(dst, v.Raw)
		}
	}
	return append(dst, ']')
}
