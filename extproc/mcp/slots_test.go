package mcp

import (
	"net/http"
	"strings"
	"testing"
)

const limitedCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__x"}}`

// TestCallsAtTheSameTimeAreLimited, per key and per server; a call that ends makes room for another.
func TestCallsAtTheSameTimeAreLimited(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sentence       string
		perKey, server int
		other          bool // the second call is another key's
		status         int
		want           string
	}{
		{"the key has reached its limit", 1, 0, false, http.StatusTooManyRequests, `"code":-32012,"message":"this key has 1 calls under way, the most that it may have (mcp.max_concurrent)`},
		{"another key has not", 1, 0, true, http.StatusOK, `"result":{}`},
		{"there is room", 2, 2, false, http.StatusOK, `"result":{}`},
		{"the server has reached its limit", 2, 1, false, http.StatusOK, `"code":-32011,"message":"the MCP server one has as many calls under way as it may have (mcp.servers.one.max_concurrent)","data":{"server":"one","reason":"busy"}`},
		{"for all keys", 2, 1, true, http.StatusOK, `"reason":"busy"`},
		{"without limits", 0, 0, false, http.StatusOK, `"result":{}`},
	} {
		c, second := caller("one"), caller("one")
		for _, one := range []*Caller{c, second} {
			one.MaxCalls, one.Servers[0].MaxCalls = row.perKey, row.server
		}
		if row.other {
			second.Account = "key_2"
		}
		var g *Gateway
		first := true
		g = newGateway(handshake(func(_ *http.Request, body string) (int, string, string) {
			if first {
				first = false
				w := post(g, second, limitedCall)
				if w.Code != row.status || !strings.Contains(w.Body.String(), row.want) || (w.Header().Get("Retry-After") != "") != (row.status == http.StatusTooManyRequests) {
					t.Errorf("%s: %d %v %s", row.sentence, w.Code, w.Header(), w.Body)
				}
			}
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{}}`
		}))
		for range 2 {
			if w := post(g, c, limitedCall); !strings.Contains(w.Body.String(), `"result":{}`) {
				t.Errorf("%s: before and after it: %s", row.sentence, w.Body)
			}
		}
		if len(g.ofKeys.of)+len(g.ofServers.of) != 0 {
			t.Errorf("%s: %v %v remain", row.sentence, g.ofKeys.of, g.ofServers.of)
		}
	}
}
