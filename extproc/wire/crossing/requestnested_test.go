package crossing_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// TestAnUnknownMemberIsNamedAtAnyDepth adds an unknown member to every object of the pairs' requests that a reader reads, one at a time.
func TestAnUnknownMemberIsNamedAtAnyDepth(t *testing.T) {
	ways := []struct {
		dir      string
		from, to side
	}{
		{"openai-to-anthropic", openaiSide, anthropicSide},
		{"anthropic-to-openai", anthropicSide, openaiSide},
	}
	for _, way := range ways {
		for name, p := range pairs(t, "testdata/request/"+way.dir) {
			whole := encodeAcross(t, way.from, way.to, p.file("in.json"))
			if whole == nil {
				continue
			}
			for _, at := range places(whole) {
				var e jsonx.Edits
				e.Replace(at, at, jsonx.Raw(`"zz":1,`))
				body := string(e.AppendTo(nil, &whole.r.Doc))
				if a := encodeAcross(t, way.from, way.to, body); a != nil && !slices.Contains(a.degraded, "zz") {
					t.Errorf("%s: %s\nnames %v", name, body, a.degraded)
				}
			}
		}
	}
}

// free are the members whose content is the client's own, or passes unchanged.
var free = []string{
	"input", "parameters", "input_schema", "schema", "cache_control", "arguments", "bardo", "citations", "caller",
	"reasoning_details",
}

// places returns the offsets inside a request's objects, except objects that are named as a whole, and those without members.
func places(a *memberCheck) []int {
	var found []int
	var walk func(v jsonx.Value)
	walk = func(v jsonx.Value) {
		kind, _ := v.Get("type").Str()
		if slices.Contains(a.degraded, kind) || v.Get("file_id").Exists() || v.Get("file").Get("file_id").Exists() {
			return
		}
		first := true
		for key, m := range v.Members {
			if first {
				found = append(found, v.At+1)
				first = false
			}
			if !slices.Contains(free, string(key)) && !slices.Contains(a.degraded, string(key)) {
				walk(m)
			}
		}
		for _, e := range v.Each {
			walk(e)
		}
	}
	for i := range a.r.Doc.Members {
		key := a.r.Doc.Members[i].Key
		switch {
		case slices.Contains(a.degraded, key), slices.Contains(free, key), key == "logit_bias", key == "context_management":
		case key == "metadata" && a.r.Doc.Find("max_tokens") < 0:
		default:
			walk(a.r.Doc.Get(key))
		}
	}
	return found
}
