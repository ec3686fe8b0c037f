package wire

import "testing"

func TestAppendWithOwnChangesNothingElse(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ object, want string }{
		"an object":             {`{"a":1}`, `{"a":1,"bardo":{"x":2}}`},
		"an empty one":          {`{ }`, `{ "bardo":{"x":2}}`},
		"of several lines":      {"{\n  \"a\": {}\n}\n", "{\n  \"a\": {}\n,\"bardo\":{\"x\":2}}\n"},
		"a frame":               {"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\",\"bardo\":{\"x\":2}}\n\n"},
		"a frame of CR":         {"data: {\"a\":1}\r\n\r\n", "data: {\"a\":1,\"bardo\":{\"x\":2}}\r\n\r\n"},
		"a comment before it":   {": bardo {\"a\":1}\ndata: {\"b\":2}\n\n", ": bardo {\"a\":1}\ndata: {\"b\":2,\"bardo\":{\"x\":2}}\n\n"},
		"an array with one":     {`[{"a":1}]`, `[{"a":1,"bardo":{"x":2}}]`},
		"no object":             {"data: [DONE]\n\n", "data: [DONE]\n\n"},
		"nothing":               {"", ""},
		"strings with brackets": {`{"a":"}{"}`, `{"a":"}{","bardo":{"x":2}}`},
	} {
		if got := string(AppendWithOwn([]byte("before"), []byte(row.object), []byte(`{"x":2}`))); got != "before"+row.want {
			t.Errorf("%s: %q, want %q", name, got, "before"+row.want)
		}
		if got := string(AppendWithOwn(nil, []byte(row.object), nil)); got != row.object {
			t.Errorf("%s: without a member it becomes %q", name, got)
		}
	}
	if got := string(AppendOwn([]byte(`{"a":1`), nil)); got != `{"a":1` {
		t.Errorf("no member: %q", got)
	}
}
