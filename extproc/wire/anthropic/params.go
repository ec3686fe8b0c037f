package anthropic

import (
	"math"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// readParam reads a parameter; an unknown member is unmapped.
func readParam(c *chat.Conversation, key string, v jsonx.Value) error {
	p := &c.Params
	switch key {
	case "temperature", "top_p", "top_k":
		return wire.ReadNumber(wire.NumberParam(p, key), key, v)
	case "stop_sequences":
		return readStop(p, v)
	case "metadata":
		return readMetadata(c, v)
	case "thinking":
		readThinkingParams(c, v)
		return nil
	case "output_config":
		wire.UnmapUnknown(c, v, "effort", "format")
		p.Effort, _ = v.Get("effort").Str()
		return readFormat(c, "output_config.format", v.Get("format"))
	case "output_format": // the name of output_config.format in its beta
		return readFormat(c, key, v)
	case "service_tier":
		if v.Equal("standard_only") {
			p.ServiceTier = chat.TierStandard
			return nil
		}
	}
	if !isDefault(key, v) {
		wire.Unmap(c, key)
	}
	return nil
}

func readMetadata(c *chat.Conversation, v jsonx.Value) error {
	if v.Kind() != jsonx.Object {
		return wire.WrongKind("metadata", "an object", v)
	}
	wire.UnmapUnknown(c, v, "user_id")
	user := v.Get("user_id")
	if user.IsNull() {
		return nil
	}
	name, ok := user.Str()
	if !ok {
		return wire.WrongKind("metadata.user_id", "a string", user)
	}
	c.Params.User = name
	return nil
}

// isDefault reports whether a member that the canonical form lacks equals its default.
func isDefault(key string, v jsonx.Value) bool {
	switch key {
	case "service_tier":
		return v.Equal("auto")
	case "mcp_servers", "context_management":
		return wire.IsEmpty(v)
	}
	return false
}

func readThinkingParams(c *chat.Conversation, v jsonx.Value) {
	wire.UnmapUnknown(c, v, "type", "budget_tokens")
	kind, _ := v.Get("type").Str()
	budget, ok := v.Get("budget_tokens").Int()
	switch {
	case kind == "enabled" && ok && budget > 0 && budget <= math.MaxInt32:
		c.Params.ThinkingBudget = int(budget)
	case kind == "adaptive":
		c.Params.Thinking = chat.ThinkingAdaptive
	case kind == "disabled":
		c.Params.Thinking = chat.ThinkingOff
	default:
		wire.Unmap(c, "thinking")
	}
}

func readStop(p *chat.Params, v jsonx.Value) error {
	if v.Kind() != jsonx.Array {
		return wire.WrongKind("stop_sequences", "an array", v)
	}
	for i, e := range v.Each {
		s, ok := e.Str()
		if !ok {
			return wire.WrongKind("stop_sequences."+strconv.Itoa(i), "a string", e)
		}
		p.Stop = append(p.Stop, s)
	}
	return nil
}

func readFormat(c *chat.Conversation, at string, v jsonx.Value) error {
	if v.IsNull() {
		return nil
	}
	schema := v.Get("schema")
	if schema.Kind() != jsonx.Object {
		return wire.WrongKind(at+".schema", "an object", schema)
	}
	wire.UnmapUnknown(c, v, "type", "schema")
	if c.Params.Schema != nil { // both names are used
		wire.Unmap(c, "output_format")
	}
	c.Params.Schema = schema.Raw
	return nil
}
