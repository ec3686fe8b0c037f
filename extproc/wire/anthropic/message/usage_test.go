package message_test

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic/message"
)

// oddReports are unusual usage reports of providers, and what is counted: input, cached and written tokens, those for an hour; output and
// reasoning; searches; and the extras that are emitted.
var oddReports = []struct{ about, report, want string }{
	{"a whole report", `{"input_tokens":10,"cache_read_input_tokens":20,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":40,"output_tokens_details":{"thinking_tokens":5},"service_tier":"standard","server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}}`, `10+20+10+20 40/5 2, service_tier"standard", server_tool_use`},
	{"nothing", `{}`, "0+0+0+0 0/0 0"},
	{"nulls", `{"input_tokens":null,"cache_read_input_tokens":null,"cache_creation_input_tokens":null,"cache_creation":null,"output_tokens":null,"output_tokens_details":null,"service_tier":null,"server_tool_use":null,"iterations":null}`, "0+0+0+0 0/0 0"},
	{"strings", `{"input_tokens":"10","cache_creation":{"ephemeral_1h_input_tokens":"20"},"output_tokens":"40","output_tokens_details":"5","server_tool_use":{"web_search_requests":"2"},"iterations":"1"}`, "0+0+0+0 0/0 0"},
	{"negative numbers", `{"input_tokens":-10,"cache_read_input_tokens":-20,"cache_creation_input_tokens":-30,"cache_creation":{"ephemeral_5m_input_tokens":-1},"output_tokens":-40,"server_tool_use":{"web_search_requests":-2}}`, "0+0+0+0 0/0 0"},
	{"floats", `{"input_tokens":1e1,"output_tokens":40.9,"server_tool_use":{"web_search_requests":2.0}}`, "10+0+0+0 40/0 2, server_tool_use"},
	{"lists", `{"input_tokens":[10],"cache_creation":[{"ephemeral_1h_input_tokens":20}],"server_tool_use":[2],"service_tier":["standard"],"output_tokens":1}`, "0+0+0+0 1/0 0"},
	{"a total of what was written alone", `{"cache_creation_input_tokens":30,"output_tokens":1}`, "0+0+30+0 1/0 0"},
	{"lifetimes alone", `{"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":1}`, "0+0+10+20 1/0 0"},
	{"lifetimes beyond their total", `{"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":1}`, "0+0+10+20 1/0 0"},
	{"duplicate numbers: the larger ones", `{"input_tokens":7,"input_tokens":10,"input_tokens":8,"cache_read_input_tokens":5,"cache_read_input_tokens":6,"output_tokens":9,"output_tokens":2}`, "10+6+0+0 9/0 0"},
	{"duplicate lifetimes: the larger report", `{"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"cache_creation":{"ephemeral_5m_input_tokens":40},"cache_creation":{"ephemeral_1h_input_tokens":39},"output_tokens":1}`, "0+0+40+0 1/0 0"},
	{"duplicate lifetimes of one size: the first one", `{"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":10},"output_tokens":1}`, "0+0+10+20 1/0 0"},
	{"lifetimes, then null", `{"cache_creation":{"ephemeral_1h_input_tokens":20},"cache_creation":null,"output_tokens":1}`, "0+0+0+20 1/0 0"},
	{"null, then lifetimes", `{"cache_creation":null,"cache_creation":{"ephemeral_1h_input_tokens":20},"output_tokens":1}`, "0+0+0+20 1/0 0"},
	{"duplicates within lifetimes", `{"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_5m_input_tokens":15,"ephemeral_1h_input_tokens":20,"ephemeral_1h_input_tokens":2},"output_tokens":1}`, "0+0+15+20 1/0 0"},
	{"lifetimes with a member that nobody knows, which counts for their size", `{"cache_creation":{"ephemeral_5m_input_tokens":10},"cache_creation":{"ephemeral_1d_input_tokens":11},"output_tokens":1}`, "0+0+0+0 1/0 0"},
	{"duplicate tools: the larger report", `{"server_tool_use":{"web_search_requests":2},"server_tool_use":{"web_search_requests":1,"web_fetch_requests":5},"output_tokens":1}`, "0+0+0+0 1/0 1, server_tool_use"},
	{"tools of no use", `{"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"output_tokens":1}`, "0+0+0+0 1/0 0"},
	{"tools without a search", `{"server_tool_use":{"web_fetch_requests":1},"output_tokens":1}`, "0+0+0+0 1/0 0, server_tool_use"},
	{"duplicate searches", `{"server_tool_use":{"web_search_requests":2,"web_search_requests":4,"web_search_requests":3},"output_tokens":1}`, "0+0+0+0 1/0 4, server_tool_use"},
	{"duplicate tiers: the last one", `{"service_tier":"batch","service_tier":"priority","output_tokens":1}`, `0+0+0+0 1/0 0, service_tier"priority"`},
	{"a tier that is no string behind one that is", `{"service_tier":"batch","service_tier":null,"output_tokens":1}`, "0+0+0+0 1/0 0"},
	{"duplicate details", `{"output_tokens":9,"output_tokens_details":{"thinking_tokens":4,"thinking_tokens":6},"output_tokens_details":{"thinking_tokens":5}}`, "0+0+0+0 9/6 0"},
	{"iterations of more than the total", `{"input_tokens":5,"output_tokens":2,"iterations":[{"input_tokens":10,"cache_read_input_tokens":3,"output_tokens":20},{"input_tokens":5,"output_tokens":2,"cache_creation":{"ephemeral_1h_input_tokens":7},"cache_creation_input_tokens":7,"output_tokens_details":{"thinking_tokens":1}}]}`, "15+3+0+7 22/1 0"},
	{"iterations of less than the total", `{"input_tokens":50,"output_tokens":60,"iterations":[{"input_tokens":10,"output_tokens":20}]}`, "50+0+0+0 60/0 0"},
	{"iterations of nonsense", `{"input_tokens":5,"output_tokens":2,"iterations":[null,"x",7,[{"input_tokens":99}],{"input_tokens":"99"},{"iterations":[{"input_tokens":99}]},{"server_tool_use":{"web_search_requests":9}}]}`, "5+0+0+0 2/0 0"},
	{"duplicate iterations: the last ones", `{"output_tokens":2,"iterations":[{"input_tokens":10}],"iterations":[{"input_tokens":4}]}`, "4+0+0+0 2/0 0"},
	{"huge numbers", `{"input_tokens":9223372036854775807,"cache_read_input_tokens":9007199254740993,"cache_creation_input_tokens":1e300,"cache_creation":{"ephemeral_1h_input_tokens":99999999999999999999,"ephemeral_5m_input_tokens":2e12},"cache_creation":{"ephemeral_1h_input_tokens":3e12},"output_tokens":1e17,"iterations":[{"input_tokens":9223372036854775807},{"input_tokens":9223372036854775807}]}`, "18014398509481984+9007199254740992+2000000000000+9007199254740992 9007199254740992/0 0"},
	{"names with escapes", `{"input\u005ftokens":10,"cache_creation":{"ephemeral_1h_input\u005ftokens":20},"output_tokens":1}`, "10+0+0+20 1/0 0"},
}

func TestAnOddReportIsCounted(t *testing.T) {
	for _, row := range oddReports {
		body := `{"id":"m","type":"message","model":"x","content":[],"stop_reason":"end_turn","usage":` + row.report + `}`
		var got []string
		for _, e := range decodeAll(message.NewDecoder(&chat.Request{Dialect: chat.Anthropic}, 200, jsonBody), body) {
			switch u := &e.usage; e.kind { //nolint:exhaustive // other events are not about usage
			case chat.UsageInfo:
				got = append(got, fmt.Sprintf("%d+%d+%d+%d %d/%d %d", u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h, u.Output, u.Reasoning, u.Searches))
				if e.text != row.report || u.Final != (u.Output > 0) {
					t.Errorf("%s: %+v of %s", row.about, u, e.text)
				}
			case chat.Extra:
				got = append(got, e.id+e.text)
			}
		}
		if got := strings.Join(got, ", "); got != row.want {
			t.Errorf("%s: %s, want %s", row.about, got, row.want)
		}
	}
}
