package responses

import (
	"fmt"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/header"
)

// oddReports are unusual usage reports of providers, and what is counted: input, cached and written tokens; output and reasoning.
var oddReports = []struct{ about, report, want string }{
	{"a whole report", `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":10},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":109}`, "30+60+10 9/4"},
	{"nothing", `{}`, "0+0+0 0/0"},
	{"nulls", `{"input_tokens":null,"input_tokens_details":null,"output_tokens":null,"output_tokens_details":{"reasoning_tokens":null}}`, "0+0+0 0/0"},
	{"strings", `{"input_tokens":"100","input_tokens_details":"60","output_tokens":"9","output_tokens_details":{"reasoning_tokens":"4"}}`, "0+0+0 0/0"},
	{"negative numbers", `{"input_tokens":-100,"input_tokens_details":{"cached_tokens":-60,"cache_write_tokens":-1},"output_tokens":-9,"output_tokens_details":{"reasoning_tokens":-4}}`, "0+0+0 0/0"},
	{"floats", `{"input_tokens":1e2,"input_tokens_details":{"cached_tokens":60.9},"output_tokens":9.0}`, "40+60+0 9/0"},
	{"lists", `{"input_tokens":[100],"input_tokens_details":[{"cached_tokens":60}],"output_tokens":{"output_tokens":9}}`, "0+0+0 0/0"},
	{"more cached than there was", `{"input_tokens":10,"input_tokens_details":{"cached_tokens":99,"cache_write_tokens":99}}`, "0+10+0 0/0"},
	{"more written than is left", `{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":99}}`, "0+4+6 0/0"},
	{"details alone", `{"input_tokens_details":{"cached_tokens":60},"output_tokens_details":{"reasoning_tokens":4}}`, "0+0+0 0/4"},
	{"duplicate numbers: the larger ones", `{"input_tokens":7,"input_tokens":100,"input_tokens":8,"output_tokens":9,"output_tokens":2}`, "100+0+0 9/0"},
	{"duplicate discounts: the smaller one", `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cached_tokens":50,"cached_tokens":70}}`, "50+50+0 0/0"},
	{"a discount and a zero", `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cached_tokens":0}}`, "100+0+0 0/0"},
	{"a discount and nonsense", `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cached_tokens":null}}`, "100+0+0 0/0"},
	{"duplicate details", `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":5},"input_tokens_details":{"cached_tokens":50,"cache_write_tokens":3}}`, "45+50+5 0/0"},
	{"duplicate details, the second without a discount", `{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"input_tokens_details":{"cache_write_tokens":3}}`, "97+0+3 0/0"},
	{"duplicate details, the first one null", `{"input_tokens":100,"input_tokens_details":null,"input_tokens_details":{"cached_tokens":60}}`, "100+0+0 0/0"},
	{"duplicate details of the output", `{"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4,"reasoning_tokens":6},"output_tokens_details":{"reasoning_tokens":5}}`, "0+0+0 9/6"},
	{"huge numbers", `{"input_tokens":9223372036854775807,"input_tokens_details":{"cached_tokens":9007199254740993},"output_tokens":1e300,"output_tokens_details":{"reasoning_tokens":99999999999999999999}}`, "0+9007199254740992+0 9007199254740992/9007199254740992"},
	{"a number out of range", `{"input_tokens":1e999,"output_tokens":7}`, "0+0+0 7/0"},
	{"names with escapes", `{"input\u005ftokens":100,"input_tokens_details":{"cached\u005ftokens":60}}`, "40+60+0 0/0"},
	{"another dialect's names", `{"prompt_tokens":100,"completion_tokens":9}`, "0+0+0 0/0"},
}

func TestAnOddReportIsCounted(t *testing.T) {
	for _, row := range oddReports {
		body := `{"id":"r","status":"completed","output":[],"usage":` + row.report + `}`
		h := header.List{{Name: "content-type", Value: header.JSON}}
		got := ""
		for _, ev := range NewDecoder(&chat.Request{Dialect: chat.Responses}, 200, h).Decode([]byte(body), true) {
			if u := &ev.Usage; ev.Kind == chat.UsageInfo {
				got += fmt.Sprintf("%d+%d+%d %d/%d", u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning)
				if string(ev.Text) != row.report || !u.Final || u.CacheWrite1h > 0 || u.Searches > 0 {
					t.Errorf("%s: %+v of %s", row.about, u, ev.Text)
				}
			}
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.about, got, row.want)
		}
	}
}
