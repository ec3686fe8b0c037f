package firewall_test

import (
	"encoding/json"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/internal/rule"
)

// TestTheNoticeOfARemovedCallIsAMessage: OpenAI refuses messages with the id of a call.
func TestTheNoticeOfARemovedCallIsAMessage(t *testing.T) {
	t.Parallel()
	for _, calls := range [][]piece{{{"transfer", "{}"}}, {{"transfer", "{}"}, {"get_price", "{}"}}, {{"get_price", "{}"}, {"transfer", "{}"}, {"get_price", "{}"}}} {
		x := exchange(t, chat.Responses, "", firewall.Rule{ID: "a", Tools: rule.Names{"transfer"}, Condition: condition(t, "false")})
		got, err := pass(t, x, chat.Responses, stream(chat.Responses, 4, calls...))
		if err != nil {
			t.Fatal(err)
		}
		items := 0
		for line := range strings.SplitSeq(got, "\n") {
			var ev struct {
				Item     struct{ Type, ID string }
				Response struct{ Output []struct{ Type, ID string } }
			}
			if data, ok := strings.CutPrefix(line, "data: "); !ok || json.Unmarshal([]byte(data), &ev) != nil {
				continue
			}
			for _, it := range append(ev.Response.Output, ev.Item) {
				if prefix := map[string]string{"message": "msg_", "function_call": "fc_"}[it.Type]; !strings.HasPrefix(it.ID, prefix) {
					t.Errorf("%v: a %s has the id %s in %s", calls, it.Type, it.ID, line)
				}
			}
			items += len(ev.Response.Output)
		}
		if items == 0 || !strings.Contains(got, "removed a call") {
			t.Errorf("%v: %s", calls, got)
		}
	}
}
