package wire_test

import (
	"testing"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

func TestSchemasThatProvidersEnforce(t *testing.T) {
	tests := []struct {
		schema            string
		anthropic, openai bool
	}{
		{`{"type":"object","properties":{"a":{"type":"string","description":"d","enum":["x"]}},"required":["a"],"additionalProperties":false}`, true, true},
		{`{"type":"object","properties":{},"additionalProperties":false}`, true, true},
		{`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, true, false},
		{`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, false, false},
		{`{"type":"object","properties":{"a":{"type":"number","maximum":3}},"required":["a"],"additionalProperties":false}`, false, false},
		{`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`, false, false},
		{`{"type":"object","properties":{"a":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/b"}}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":["string","null"]}}}`, true, true},
		{`{"type":"object","properties":{"a":{"type":"array","minItems":2,"items":{"type":"string"}}},"required":["a"],"additionalProperties":false}`, false, false},
		{`{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"],"additionalProperties":false}`, false, false},
		{`{"type":"object","properties":{"a":{"$ref":"https://example.com/s"}},"required":["a"],"additionalProperties":false}`, false, false},
		{`{"type":"object","properties":{"a":{"allOf":[{"type":"string"}]}},"required":["a"],"additionalProperties":false}`, true, false},
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":["object","null"]}]}},"required":["a"],"additionalProperties":false}`, false, false},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, true, false},
		{`{"properties":{}}`, false, false},
		{`{"type":"object","properties":{"a":{"type":"number","default":1}},"required":["a"],"additionalProperties":false}`, true, false},
		{`true`, false, false},
		{`{"type":"object","properties":{"a":{"type":"string","format":"date-time"}},"required":["a"],"additionalProperties":false}`, true, true},
		{`{"type":"object","properties":{"a":{"type":"string","format":"uri"}},"required":["a"],"additionalProperties":false}`, true, false},
		{`{"type":"object","properties":{"a":{"type":"string","format":"iban"}},"required":["a"],"additionalProperties":false}`, false, false},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"],"additionalProperties":false,"$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}}}`, false, true},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"required":["a","b"],"additionalProperties":false,"$defs":{"n":{"$ref":"#/$defs/a~1b"},"a/b":{"type":"null"}}}`, true, true},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"],"additionalProperties":false,"$defs":{"n":{"$ref":"#/$defs/m"},"m":{"$ref":"#/$defs/n"}}}`, false, true},
	}
	for _, tt := range tests {
		v := jsonx.Value{Raw: jsonx.Raw(tt.schema)}
		if a, o := wire.Enforceable(v, wire.ByAnthropic), wire.Enforceable(v, wire.ByOpenAI); a != tt.anthropic || o != tt.openai {
			t.Errorf("%s: by Anthropic %v, by OpenAI %v", tt.schema, a, o)
		}
	}
}
