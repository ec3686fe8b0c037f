package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

func objectTool(schema string) (flat string, degraded []string) {
	w := wire.Writer{Conv: &chat.Conversation{}}
	t := w.ObjectTool(&chat.Tool{Name: "f", Schema: jsonx.Raw(schema)})
	return string(t.Schema), w.Degraded
}

func TestSchemasOfToolsAreObjectsAtTheTopLevel(t *testing.T) {
	for about, row := range map[string]struct {
		schema, want string
		lossy        bool
	}{
		"nothing is combined": {`{ "type":"object", "properties":{"a":{"anyOf":[{},{}]}}}`, `{ "type":"object", "properties":{"a":{"anyOf":[{},{}]}}}`, false},
		"no schema":           {``, ``, false},
		"one of two is required": {
			`{"type":"object","properties":{"a":{"type":"string"},"b":{},"c":{}},"required":["c"],"anyOf":[{"required":["a","c"]},{"required":["b"]}],"title":"T"}`,
			`{"type":"object","title":"T","properties":{"a":{"type":"string"},"b":{},"c":{}},"required":["c"]}`, true,
		},
		"a union of objects": {
			`{"oneOf":[{"type":"object","properties":{"kind":{"const":"x"},"x":{}},"required":["kind","x"],"additionalProperties":false},` +
				`{"type":"object","properties":{"kind":{"const":"y"}},"required":["kind"],"additionalProperties":false},{"type":"null"}]}`,
			`{"type":"object","properties":{"kind":{"anyOf":[{"const":"x"},{"const":"y"}]},"x":{}},"required":["kind"],"additionalProperties":false}`, true,
		},
		"an object or null": {
			`{"anyOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"null"}]}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`, false,
		},
		"all of several": {
			`{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"minLength":1},"b":{}},"required":["b"]}],"additionalProperties":true}`,
			`{"type":"object","additionalProperties":true,"properties":{"a":{"allOf":[{"type":"string"},{"minLength":1}]},"b":{}},"required":["a","b"]}`, false,
		},
		"a reference": {
			`{"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"a b":{"$ref":"#/definitions/B"}},"additionalProperties":false},"B":{}}}`,
			`{"type":"object","definitions":{"A":{"type":"object","properties":{"a b":{"$ref":"#/definitions/B"}},"additionalProperties":false},"B":{}},` +
				`"properties":{"a b":{"$ref":"#/definitions/B"}},"additionalProperties":false}`, false,
		},
		"a reference to itself": {`{"$ref":"#"}`, `{"type":"object","properties":{}}`, true},
		"what has no other form": {
			`{"type":"object","properties":{"a":{},"b":{}},"not":{"required":["a","b"]}}`, `{"type":"object","properties":{"a":{},"b":{}}}`, true,
		},
	} {
		got, degraded := objectTool(row.schema)
		if lossy := fmt.Sprint(degraded) == "[tool_schema]"; got != row.want || lossy != row.lossy {
			t.Errorf("%s: %s, degraded %v", about, got, degraded)
		}
	}
}

// TestSchemasThatCombineMuchAreBounded: a definition that is named often, and alternatives that differ in one property.
func TestSchemasThatCombineMuchAreBounded(t *testing.T) {
	for _, schema := range []string{
		`{"$defs":{"A":{"properties":{"x":{"description":"` + strings.Repeat("y", 1<<12) + `"}}}},"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/A"},`, 5000), ",") + `]}`,
		`{"anyOf":[` + numbered(20_000, `{"properties":{"x":{"const":%d}}}`) + `]}`,
		`{"anyOf":[` + numbered(20_000, `{"required":["r%d"]}`) + `]}`,
	} {
		got, degraded := objectTool(schema)
		if len(got) > len(schema)+4<<20 || !json.Valid([]byte(got)) || len(degraded) != 1 {
			t.Errorf("%.40s…: %d bytes, degraded %v", schema, len(got), degraded)
		}
	}
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func FuzzSchemasOfTools(f *testing.F) {
	for _, s := range []string{
		`{"anyOf":[{"$ref":"#"},{"properties":{"a":{"not":{}}}}],"enum":[1]}`, `{"allOf":[{"oneOf":[{"type":["object","null"],"required":[1,"é\""]}]}]}`, `{"properties":7,"anyOf":{}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if !json.Valid([]byte(schema)) || strings.TrimSpace(schema) != schema {
			return
		}
		got, _ := objectTool(schema)
		v := jsonx.Value{Raw: jsonx.Raw(got)}
		if !json.Valid([]byte(got)) || v.Kind() == jsonx.Object && (v.Get("anyOf").Exists() || v.Get("oneOf").Exists() || v.Get("allOf").Exists()) {
			t.Errorf("%s became %s", schema, got)
		}
	})
}
