package crossing_test

import (
	"bytes"
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// width is the maximum line length of a golden file.
const width = 110

// layout formats JSON: values that fit are on one line. Strings and numbers keep their text.
func layout(b *bytes.Buffer, v jsonx.Value, indent int) {
	if line := oneLine(v); indent+len(line) <= width || !isNested(v) {
		b.WriteString(line)
		return
	}
	inner := strings.Repeat(" ", indent+2)
	between := "\n" + inner
	open, end := "{", "}"
	if v.Kind() == jsonx.Array {
		open, end = "[", "]"
	}
	b.WriteString(open)
	for key, e := range v.Members {
		b.WriteString(between + string(jsonx.AppendString(nil, key)) + ": ")
		layout(b, e, indent+2)
		between = ",\n" + inner
	}
	for _, e := range v.Each {
		b.WriteString(between)
		layout(b, e, indent+2)
		between = ",\n" + inner
	}
	b.WriteString("\n" + inner[2:] + end)
}

func isNested(v jsonx.Value) bool { return v.Kind() == jsonx.Object || v.Kind() == jsonx.Array }

func oneLine(v jsonx.Value) string {
	var parts []string
	for key, e := range v.Members {
		parts = append(parts, string(jsonx.AppendString(nil, key))+": "+oneLine(e))
	}
	for _, e := range v.Each {
		parts = append(parts, oneLine(e))
	}
	switch v.Kind() {
	case jsonx.Object:
		return "{" + strings.Join(parts, ", ") + "}"
	case jsonx.Array:
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		return string(v.Raw)
	}
}

func TestLayoutChangesWhiteSpaceAlone(t *testing.T) {
	long := strings.Repeat("x", width)
	tests := []struct{ in, want string }{
		{`{"a":[1.0,{"b" :null}]}`, `{"a": [1.0, {"b": null}]}`},
		{`{"a":["` + long + `",{}]}`, "{\n  \"a\": [\n    \"" + long + "\",\n    {}\n  ]\n}"},
	}
	for _, tt := range tests {
		v, err := jsonx.Parse([]byte(tt.in))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if layout(&b, v, 0); b.String() != tt.want {
			t.Errorf("%s is laid out as\n%s\nwant\n%s", tt.in, b.String(), tt.want)
		}
	}
}
