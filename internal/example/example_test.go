package example_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bardo.money/gateway/internal/example"
)

// valid returns an error unless a text is JSON that a schema allows.
func valid(schema, text string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		return err
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// TestExamplesAreValid: examples match their schema in every variant.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"type":"object"}`, `{"type":"object","properties":{},"minProperties":2,"additionalProperties":{"type":"integer","minimum":7}}`,
		object(`"a":{"type":"integer","minimum":3,"maximum":4},"b":{"type":"integer","exclusiveMinimum":3},"c":{"type":"number","exclusiveMaximum":0}`),
		object(`"a":{"type":"number","multipleOf":0.25,"minimum":0.3},"b":{"type":"integer","multipleOf":7,"maximum":6},"c":{"type":"integer","minimum":0.5,"maximum":1.5}`),
		object(`"a":{"type":"string","minLength":20},"b":{"type":"string","maxLength":3},"c":{"type":"string","format":"date-time"},"d":{"type":"string","format":"uuid"}`),
		object(`"a":{"type":"string","pattern":"^[A-Z]{2}-\\d+(x|y)?$"},"b":{"type":"string","pattern":"0x[0-9a-fA-F]{64}"},"c":{"type":"string","pattern":"^[^a-z]+$"}`),
		object(`"a":{"type":"array","items":{"type":"string"},"minItems":3,"uniqueItems":true},"b":{"type":"array","items":{"enum":[1,2,3]},"minItems":3,"uniqueItems":true}`),
		object(`"a":{"type":"array","maxItems":0},"b":{"type":"array","prefixItems":[{"const":"x"},{"type":"boolean"}],"items":{"type":"null"}}`),
		object(`"a":{"enum":["x",null]},"b":{"const":{"k":[1]}},"c":{"type":["integer","null"]},"d":{"anyOf":[{"type":"string","maxLength":2},{"type":"null"}]}`),
		object(`"a":{"oneOf":[{"type":"string"},{"type":"integer"}]},"b":{"allOf":[{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},{"properties":{"y":{"type":"integer"}},"required":["y"]}]}`),
		`{"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"child":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["name","child"]}},"$ref":"#/$defs/node"}`,
		`{"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"of":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["v"]}},"$ref":"#/$defs/n"}`,
		`{"type":"object","required":["x","undeclared"],"properties":{"x":true,"y":{}}}`,
	} {
		for variant := range 3 {
			got := example.Of([]byte(schema), example.Options{Variant: variant})
			if err := valid(schema, got); err != nil {
				t.Errorf("%s: %s: %v", schema, got, err)
			}
			if again := example.Of([]byte(schema), example.Options{Variant: variant}); again != got {
				t.Errorf("%s: %s, then %s", schema, got, again)
			}
		}
	}
}

func TestWhatIsWrongIsInvalid(t *testing.T) {
	t.Parallel()
	schema := object(`"a":{"enum":["x","y"]},"b":{"type":"number","minimum":0,"maximum":1},"c":{"type":"number","maximum":5},"d":{"const":7}`)
	for _, row := range []struct {
		o    example.Options
		want string
	}{
		{example.Options{}, `{"a":"x","b":0.5,"c":0.5,"d":7}`},
		{example.Options{Variant: 1}, `{"a":"y","b":0.5,"c":1.5,"d":7}`},
		{example.Options{OutOfRange: true}, `{"a":"x","b":-1000000,"c":1000005,"d":7}`},
		{example.Options{OffEnum: true}, `{"a":"none of these","b":0.5,"c":0.5,"d":"none of these"}`},
	} {
		got := example.Of([]byte(schema), row.o)
		if got != row.want || (valid(schema, got) == nil) == (row.o.OutOfRange || row.o.OffEnum) {
			t.Errorf("%+v: %s, want %s", row.o, got, row.want)
		}
	}
	if got := example.Of([]byte(`{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"required":["b"]}`), example.Options{Incomplete: true}); got != `{"a":null}` {
		t.Errorf("incomplete: %s", got)
	}
	if got := example.Of([]byte(`{"type":"array","description":"(minItems 3)","items":{"type":"integer","description":"from 2 on: minimum 2"}}`), example.Options{}); got != `[2,3,4]` {
		t.Errorf("limits in words: %s", got)
	}
}

// object is a schema in which all of some properties are required.
func object(properties string) string {
	var of map[string]json.RawMessage
	_ = json.Unmarshal([]byte("{"+properties+"}"), &of) // it is ours
	var names []string
	for name := range of {
		names = append(names, `"`+name+`"`)
	}
	return `{"type":"object","properties":{` + properties + `},"required":[` + strings.Join(names, ",") + `]}`
}

func FuzzAnyText(f *testing.F) {
	for _, s := range []string{`{"$ref":"#"}`, `{"enum":[]}`, `{"type":"string","pattern":"(["}`, `{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, `[`, `{"minItems":1e9,"type":"array"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if got := example.Of([]byte(schema), example.Options{}); !json.Valid([]byte(got)) {
			t.Fatalf("%s gave %s", schema, got)
		}
	})
}
