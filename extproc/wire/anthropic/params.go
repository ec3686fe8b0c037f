package anthropic

import (
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// readParam reads a sampling parameter; a member it does not know is unmapped.
func readParam(c *chat.Conversation, key string, v jsonx.Value) error {
	p := &c.Params
	switch key {
	case "temperature":
		return readNumber(&p.Temperature, key, v)
	case "top_p":
		return readNumber(&p.TopP, key, v)
	case "top_k":
		return readNumber(&p.TopK, key, v)
	case "stop_sequences":
		return readStop(p, v)
	case "metadata":
		p.User, _ = v.Get("user_id").Str()
		return nil
	case "thinking":
		if n, ok := v.Get("budget_tokens").Int(); ok && n > 0 && n <= math.MaxInt32 && v.Get("type").Equal("enabled") {
			p.ThinkingBudget = int(n)
		}
		return nil
	case "output_config":
		p.Effort, _ = v.Get("effort").Str()
		return readFormat(p, "output_config.format", v.Get("format"))
	case "output_format": // the name of output_config.format while it was a beta
		return readFormat(p, key, v)
	}
	c.Unmapped = append(c.Unmapped, key)
	return nil
}

func readNumber(dst *string, key string, v jsonx.Value) error {
	if v.Kind() != jsonx.Number {
		return wrongKind(key, "a number", v)
	}
	*dst = string(v.Raw)
	return nil
}

func readStop(p *chat.Params, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wrongKind("stop_sequences", "an array", v)
	}
	for i, e := range v.Each {
		s, ok := e.Str()
		if !ok {
			return wrongKind("stop_sequences."+strconv.Itoa(i), "a string", e)
		}
		p.Stop = append(p.Stop, s)
	}
	return nil
}

func readFormat(p *chat.Params, at string, v jsonx.Value) error {
	if v.IsNull() {
		return nil
	}
	schema := v.Get("schema")
	if schema.Kind() != jsonx.Object {
		return wrongKind(at+".schema", "an object", schema)
	}
	p.Schema = schema.Raw
	return nil
}
