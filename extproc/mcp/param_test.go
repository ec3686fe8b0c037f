package mcp

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

// withoutHandshake answers as a server of the modern revision with one tool, and anything but lists by more.
func withoutHandshake(schema string, more transport) transport {
	return func(r *http.Request, body string) (int, string, string) {
		switch {
		case strings.Contains(body, `"initialize"`):
			return http.StatusBadRequest, "", ""
		case strings.Contains(body, `"server/discover"`):
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{"supportedVersions":["` + modern + `"],"capabilities":{"tools":{}}}}`
		case strings.Contains(body, `"tools/list"`):
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{"tools":[{"name":"t","inputSchema":` + schema + `},{"name":"u"}]}}`
		}
		return more(r, body)
	}
}

func TestWhichArgumentsHaveHeaders(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		schema, want string // "" for a schema that is not allowed
	}{
		{`{"properties":{"a":{"type":"string"}}}`, "none"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"region"}}}`, "Mcp-Param-Region=a"},
		{`{"properties":{"a":{"type":"integer","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"boolean","x-mcp-header":"B"}}}}}`, "Mcp-Param-A=a Mcp-Param-B=b.c"},
		{`{"properties":{"x-mcp-header":{"type":"string"}}}`, "none"},
		{`{"description":"x-mcp-header","default":{"x-mcp-header":"a"},"examples":[{"x-mcp-header":"a"}]}`, "none"},
		{`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, ""},
		{`{"properties":{"a":{"x-mcp-header":"A"}}}`, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}`, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":5}}}`, ""},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, ""},
		{`{"type":"string","x-mcp-header":"A"}`, ""},
		{`{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}`, ""},
		{`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, ""},
	} {
		p, ok := paramsOf([]byte(row.schema))
		var got []string
		for _, one := range p {
			got = append(got, one.header+"="+strings.Join(one.path, "."))
		}
		if want := strings.Fields(strings.TrimPrefix(row.want, "none")); ok != (row.want != "") || ok && !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", row.schema, got, ok)
		}
	}
}

// TestHeadersAreTheArgumentsOfTheBody: a call with a header that differs from its argument is refused, and the server gets what is in the body.
func TestHeadersAreTheArgumentsOfTheBody(t *testing.T) {
	t.Parallel()
	const schema = `{"properties":{"s":{"type":"string","x-mcp-header":"S"},"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"},"o":{"properties":{"p":{"type":"string","x-mcp-header":"P"}}}}}`
	const missing = "-"
	for _, row := range []struct {
		args string
		sent string // "Name: value" lines
		want string // the headers that the server gets
		ok   bool
	}{
		{`{"s":"x","n":42,"b":true,"o":{"p":"y"}}`, "S: x\nN: 42\nB: true\nP: y", "B: true\nN: 42\nP: y\nS: x", true},
		{`{"s":"x"}`, "S: =?base64?eA==?=", "S: x", true},
		{`{"s":"hä"}`, "S: =?base64?aMOk?=", "S: =?base64?aMOk?=", true},
		{`{"n":42}`, "N: 42.0", "N: 42", true},
		{`{"n":4.2e1}`, "N: 42", "N: 42", true},
		{`{"n":9007199254740991}`, "N: 9007199254740991", "N: 9007199254740991", true},
		{`{"s":null}`, "", "", true},
		{`{}`, "", "", true},
		{`{"other":1}`, "", "", true},
		{`{"s":"x"}`, "S: y", missing, false},
		{`{"s":"x"}`, "S: X", missing, false},
		{`{"s":"x"}`, "S: x\nS: y", missing, false},
		{`{"s":"x"}`, "", missing, false},
		{`{"s":"x"}`, "S: =?base64?*?=", missing, false},
		{`{"s":"hä"}`, "S: hä", missing, false},
		{`{"s":"x"}`, "S: x\nOther: x", missing, false},
		{`{}`, "S: x", missing, false},
		{`{"s":null}`, "S: null", missing, false},
		{`{"s":"x","s":"y"}`, "S: x", missing, false},
		{`{"o":{"p":"x"},"o":{}}`, "P: x", missing, false},
		{`{"n":42}`, "N: 43", missing, false},
		{`{"n":42}`, "N: 0x2A", missing, false},
		{`{"n":9007199254740993}`, "N: 9007199254740992", missing, false},
		{`{"n":-9007199254740993}`, "N: -9007199254740992", missing, false},
		{`{"n":1e400}`, "N: 1e400", missing, false},
		{`{"n":1.5}`, "N: 1.5", missing, false},
		{`{"s":["x"]}`, "S: x", missing, false},
		{`{"s":[]}`, "S: ", missing, false},
		{`{"b":true}`, "B: TRUE", missing, false},
	} {
		calls := 0
		g := newGateway(withoutHandshake(schema, func(r *http.Request, body string) (int, string, string) {
			calls++
			var got []string
			for name, values := range r.Header {
				if of, ok := strings.CutPrefix(name, paramPrefix); ok {
					got = append(got, of+": "+strings.Join(values, ","))
				}
			}
			slices.Sort(got)
			if strings.Join(got, "\n") != row.want {
				t.Errorf("%s: the server gets %q", row.args, got)
			}
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{}}`
		}))
		header := http.Header{}
		for line := range strings.Lines(row.sent) {
			name, value, _ := strings.Cut(line, ":")
			header.Add(paramPrefix+name, strings.TrimSpace(value))
		}
		w := modernCall(g, row.args, header)
		if ok := w.Code == http.StatusOK && strings.Contains(w.Body.String(), `"result"`); ok != row.ok || calls != map[bool]int{true: 1}[ok] {
			t.Errorf("%s with %q: %d %s after %d calls", row.args, row.sent, w.Code, w.Body, calls)
		}
		if !row.ok && (w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"code":-32020,"message":"the header Mcp-Param-`)) {
			t.Errorf("%s with %q: %d %s", row.args, row.sent, w.Code, w.Body)
		}
	}
}

// TestAClientOfAnEarlierRevisionHasNoHeaders: the server gets those that it requires from the arguments, and none of the client's.
func TestAClientOfAnEarlierRevisionHasNoHeaders(t *testing.T) {
	t.Parallel()
	got := map[string]http.Header{}
	g := newGateway(withoutHandshake(`{"properties":{"s":{"type":"string","x-mcp-header":"S"}}}`, func(r *http.Request, body string) (int, string, string) {
		got[r.Header.Get(headerName)] = r.Header
		return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{}}`
	}))
	post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__t","arguments":{"s":"x"}}}`, "Mcp-Param-S", "y", "Mcp-Param-Other", "z")
	post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__u","arguments":{"s":"x"}}}`, "Mcp-Param-S", "y")
	post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"one__p"}}`, "Mcp-Param-S", "y")
	for name, want := range map[string]string{"t": "x", "u": "", "p": ""} {
		h := got[name]
		if h == nil || h.Get("Mcp-Param-S") != want || h.Get("Mcp-Param-Other") != "" {
			t.Errorf("%s: the server gets %v", name, h)
		}
	}
}

// TestAServerOfAnEarlierRevisionGetsNoHeaders, but the client's are checked.
func TestAServerOfAnEarlierRevisionGetsNoHeaders(t *testing.T) {
	t.Parallel()
	calls := 0
	g := newGateway(handshake(func(r *http.Request, body string) (int, string, string) {
		if strings.Contains(body, `"tools/list"`) {
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{"tools":[{"name":"t"}]}}`
		}
		calls++
		for name := range r.Header {
			if strings.HasPrefix(name, paramPrefix) {
				t.Errorf("the server gets %s", name)
			}
		}
		return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{}}`
	}))
	if w := modernCall(g, `{"s":"x"}`, http.Header{"Mcp-Param-S": {"x"}}); w.Code != http.StatusBadRequest || calls != 0 {
		t.Errorf("%d %s after %d calls", w.Code, w.Body, calls)
	}
	if w := modernCall(g, `{"s":"x"}`, nil); w.Code != http.StatusOK || calls != 1 {
		t.Errorf("%d %s after %d calls", w.Code, w.Body, calls)
	}
}

// TestAServerThatDoesNotListItsTools: calls with headers, which cannot be checked, are refused.
func TestAServerThatDoesNotListItsTools(t *testing.T) {
	t.Parallel()
	list := withoutHandshake("{}", nil)
	g := newGateway(func(r *http.Request, body string) (int, string, string) {
		switch {
		case strings.Contains(body, `"tools/list"`):
			return http.StatusInternalServerError, "", ""
		case strings.Contains(body, `"tools/call"`):
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{}}`
		}
		return list(r, body)
	})
	if w := modernCall(g, `{"s":"x"}`, http.Header{"Mcp-Param-S": {"x"}}); !strings.Contains(w.Body.String(), `"code":-32011`) {
		t.Errorf("with a header: %d %s", w.Code, w.Body)
	}
	if w := modernCall(g, `{"s":"x"}`, nil); !strings.Contains(w.Body.String(), `"result"`) {
		t.Errorf("without one: %d %s", w.Code, w.Body)
	}
}

// TestAToolWithMalformedHeadersDoesNotExist.
func TestAToolWithMalformedHeadersDoesNotExist(t *testing.T) {
	t.Parallel()
	g := newGateway(withoutHandshake(`{"properties":{"s":{"type":"number","x-mcp-header":"S"}}}`, nil))
	if w := post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`); !strings.Contains(w.Body.String(), `"tools":[{"name":"one__u"}]`) {
		t.Error(w.Body)
	}
}

// FuzzParamHeaders: the headers that the gateway writes are those that it accepts from a client, and stand for the arguments.
func FuzzParamHeaders(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}}`, `{"a":"hä\n","b":{"c":4.2e1}}`)
	f.Add(`{"x-mcp-header":{"properties":[]}}`, `[]`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		p, _ := paramsOf([]byte(schema))
		v, _ := jsonx.Parse([]byte(args))
		out, wrong := p.headers(v, nil)
		for name, values := range out {
			if _, ok := decodeName(values[0]); !ok || !strings.HasPrefix(name, paramPrefix) || len(values) != 1 {
				t.Errorf("%q: %q", name, values)
			}
		}
		for _, one := range p {
			value, _ := one.find(v)
			if _, primitive := textOf(value); !primitive && value.Exists() && !value.IsNull() {
				return // no header can stand for it
			}
		}
		if again, other := p.headers(v, out); wrong == "" && (other != "" || !maps.EqualFunc(out, again, slices.Equal)) {
			t.Errorf("%s %s: %v, then %v, %s", schema, args, out, again, other)
		}
	})
}

// modernCall calls the tool of the server "one" as a client of the modern revision does.
func modernCall(g *Gateway, args string, params http.Header) *httptest.ResponseRecorder {
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__t","arguments":` + args + `,"_meta":{"` + metaVersion + `":"` + modern + `"}}}`
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, Path, strings.NewReader(body))
	r.Header = http.Header{headerVersion: {modern}, headerMethod: {"tools/call"}, headerName: {"one__t"}}
	maps.Copy(r.Header, params)
	w := httptest.NewRecorder()
	g.Serve(w, r, caller("one"))
	return w
}
