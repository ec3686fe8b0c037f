package wire_test

import (
	"fmt"
	"testing"

	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

func TestTheLaterReportCountsUnlessEmpty(t *testing.T) {
	tests := []struct{ name, earlier, later, want string }{
		{"the later counts", `{"a":1,"b":2}`, `{"b":3}`, `{"a":1,"b":3}`},
		{"K-30 zeros and null erase nothing", `{"a":1,"b":2,"c":"x"}`, `{"a":0,"b":null,"c":null}`, `{"a":1,"b":2,"c":"x"}`},
		{"zeros of their own stay", `{"a":0}`, `{"b":0.0,"c":null}`, `{"a":0,"b":0.0,"c":null}`},
		{"what is new comes last", `{"a":1}`, `{"c":3,"b":2}`, `{"a":1,"c":3,"b":2}`},
		{"objects are merged", `{"d":{"x":1,"y":2}}`, `{"d":{"x":0,"z":3}}`, `{"d":{"x":1,"y":2,"z":3}}`},
		{"on one line", "{\"a\":[1,\r\n2]}", `{}`, `{"a":[1,2]}`},
		{"nothing before", ``, `{"a":1}`, `{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := wire.AppendMerged(nil, jsonx.Value{Raw: []byte(tt.earlier)}, jsonx.Value{Raw: []byte(tt.later)})
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAMergedReportIsBounded: a stream may report its usage in every chunk, with new members in each report.
func TestAMergedReportIsBounded(t *testing.T) {
	var merged []byte
	for i := range 1000 {
		next := fmt.Appendf(nil, `{"total":%d,"k%d":1}`, i+1, i)
		merged = wire.AppendMerged(nil, jsonx.Value{Raw: merged}, jsonx.Value{Raw: next})
		if len(merged) > 4096 {
			t.Fatalf("%d bytes after %d reports", len(merged), i+1)
		}
	}
	if v := (jsonx.Value{Raw: merged}); string(v.Get("total").Raw) != "1000" || jsonx.Valid(merged) != nil {
		t.Errorf("%s", merged)
	}
}
