package rule_test

import (
	"math"
	"strings"
	"testing"

	"bardo.money/gateway/internal/rule"
)

func TestAStarStandsForAnyText(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		pattern, name string
		want          bool
	}{
		{"get_price", "get_price", true},
		{"get_price", "get_prices", false},
		{"get_price", "Get_price", false},
		{"get_*", "get_", true},
		{"get_*", "xget_a", false},
		{"*transfer*", "mcp__wallet/transfer_all", true},
		{"*transfer*", "trans_fer", false},
		{"a*b*c", "a.b.b.c", true},
		{"a*b*c", "a.c.b", false},
		{"ab*ba", "aba", false},
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"[a-z]*", "b", false},
		{"**", "x", true},
	} {
		if got := (rule.Names{row.pattern}).Match(row.name); got != row.want {
			t.Errorf("%q matches %q: %v", row.pattern, row.name, got)
		}
	}
	if (rule.Names{}).Match("x") || !(rule.Names{"a", "b*"}).Match("bc") {
		t.Error("a list is not any of its patterns")
	}
}

func TestConditionsDecideOnArguments(t *testing.T) {
	t.Parallel()
	v := rule.Vars{Tool: "transfer", Subsystem: "risk", Key: "key_1", Regime: "crisis", Phase: "stable", Vitality: 0.4}
	for _, row := range []struct {
		condition, args string
		want            bool
		fails           bool
	}{
		{"args.amount_usd <= 500.0", `{"amount_usd":500}`, true, false},
		{"args.amount_usd <= 500", `{"amount_usd":500.01}`, false, false},
		{"args.amount_usd <= 500.0", `{}`, false, true},
		{"!has(args.amount_usd) || args.amount_usd <= 500.0", ``, true, false},
		{"args.amount_usd <= 500.0", `{"amount_usd":"1"}`, false, true},
		{"args.to in ['0xa','0xb']", `{"to":"0xb"}`, true, false},
		{"args.legs.all(l, l.size < 3)", `{"legs":[{"size":1},{"size":3}]}`, false, false},
		{"tool == 'transfer' && subsystem == 'risk' && key.startsWith('key_') && regime != 'calm' && phase == 'stable'", `{}`, true, false},
		{"vitality > 0.5 || tool.matches('^get_')", `{}`, false, false},
		{"args.note.contains('x')", `{"note":null}`, false, true},
		{"args.n == 9007199254740992", `{"n":9007199254740993}`, false, false}, // 2^53 and 2^53+1, which are equal as floating-point numbers
		{"args.n == 9007199254740993", `{"n":9007199254740993}`, true, false},
		{"args.n == 9007199254740993", `{"n":9007199254740993.0}`, true, false},
		{"args.n == 9007199254740993", `{"n":9.007199254740993e15}`, true, false},
		{"args.n > -9007199254740993", `{"n":-9007199254740993}`, false, false},
		{"args.n in [9007199254740992]", `{"n":9007199254740993}`, false, false},
		{"args.n < 18446744073709551615u", `{"n":18446744073709551615}`, false, false},
		{"args.n == 1000000000000000000", `{"n":1e18}`, true, false},
		{"args.n > 500.0", `{"n":9007199254740993}`, true, false},
		{"args.n > 9223372036854775807", `{"n":1e30}`, true, false},
		{"args.n * 2.0 > 1.0", `{"n":4503599627370497}`, true, false},
		{"args.n + 1 > 0", `{"n":9223372036854775807}`, false, true},
		{"[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, true)))))", `{}`, false, true},
	} {
		c, err := rule.ParseCondition(row.condition)
		if err != nil {
			t.Errorf("%s: %v", row.condition, err)
			continue
		}
		own := v
		if own.Args, err = rule.Args([]byte(row.args)); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Holds(&own); got != row.want || (err != nil) != row.fails {
			t.Errorf("%s of %s: %v, %v", row.condition, row.args, got, err)
		}
	}
}

func TestBadConditionsAreExplainedInOneLine(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		"args.amount_usd <=":       "line 1, column",
		"amount <= 5":              "undeclared reference to 'amount'",
		"args.amount_usd":          "not true or false",
		"tool == 5":                "no matching overload",
		strings.Repeat("a", 5000):  "longer than 4096 bytes",
		"":                         "line 1, column",
		"tool == 'a' ||\n  regime": "line 2, column 3: expected type",
	} {
		_, err := rule.ParseCondition(condition)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", condition, err, want)
		}
	}
}

func TestMeasuresCountUsage(t *testing.T) {
	t.Parallel()
	u := rule.Usage{Input: 1000, Cached: 400, CacheWrite: 100, Output: 50, Reasoning: 20, CostUSD: 0.25, Model: "m", Provider: "p", Subsystem: "risk", Key: "k", KeyName: "n", Tier: "pro"}
	for text, want := range map[string]float64{
		"input_tokens - cached_tokens + 2 * cache_write_tokens + 5 * output_tokens + reasoning_tokens": 1070,
		"total_tokens":                                             1050,
		"cost_usd * 1000.0":                                        250,
		"double(cached_tokens) * 0.25":                             100,
		"uint(output_tokens)":                                      50,
		"model == 'm' && provider == 'p' ? 7 : 1":                  7,
		"subsystem + key + key_name + tier == 'riskknpro' ? 3 : 0": 3,
		"reasoning_tokens - output_tokens":                         -30,
	} {
		m, err := rule.ParseMeasure(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if m.Uses("output_tokens") != strings.Contains(text, "output_tokens") || m.Uses("input") {
			t.Errorf("%s: the variables are wrong", text)
		}
		if got, err := m.Of(&u); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	f, err := rule.ParseFilter("input_tokens > 500 && tier in ['free', 'pro']")
	if err != nil {
		t.Fatal(err)
	}
	for input, want := range map[int64]bool{500: false, 501: true} {
		if got, err := f.Holds(&rule.Usage{Input: input, Tier: "pro"}); got != want || err != nil {
			t.Errorf("%d tokens: %v, %v", input, got, err)
		}
	}
}

func TestBadExpressionsAboutUsageAreExplainedInOneLine(t *testing.T) {
	t.Parallel()
	tens := "[0,1,2,3,4,5,6,7,8,9]"
	for text, want := range map[string]string{
		"input_tokens +":          "line 1, column",
		"tokens":                  "undeclared reference to 'tokens'",
		"model":                   "of the type string, not a number",
		"0.5 * input_tokens":      "no matching overload",
		"1000 / reasoning_tokens": "for a request that used nothing it has no value: division by zero",
		"1.0 / cost_usd":          "for a request that used nothing it has no value: its value is not a number",
		"output_tokens / (output_tokens == 2000 ? 0 : 1)": "for a request that used some of everything it has no value",
		strings.Repeat("1", 5000):                         "longer than 4096 bytes",
		tens + ".all(a, " + tens + ".all(b, " + tens + ".all(c, " + tens + ".all(d, " + tens + ".all(e, a + b + c + d + e > output_tokens))))) ? 1 : 2": "may take too many steps",
	} {
		_, err := rule.ParseMeasure(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"output_tokens": "not true or false", "1 / output_tokens > 3": "division by zero"} {
		if _, err := rule.ParseFilter(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestAMeasureThatFailsForARequestIsAnError(t *testing.T) {
	t.Parallel()
	m, err := rule.ParseMeasure("9223372036854775807 / (output_tokens == 7 ? 0 : 1) * (input_tokens > 5000 ? 2 : 1)")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []rule.Usage{{Output: 7}, {Input: 5001}} {
		if got, err := m.Of(&u); err == nil {
			t.Errorf("%+v: %v", u, got)
		}
	}
}

// FuzzMeasure: any text is compiled or refused, and any usage has a finite value or an error.
func FuzzMeasure(f *testing.F) {
	f.Add("input_tokens * 2 - cached_tokens", int64(1), int64(2), 0.5, "m")
	f.Add("model.size() > 3 ? cost_usd : double(output_tokens)", int64(-1), int64(1<<62), -1e300, "")
	f.Fuzz(func(t *testing.T, text string, input, output int64, cost float64, model string) {
		m, err := rule.ParseMeasure(text)
		if err != nil {
			return
		}
		if n, err := m.Of(&rule.Usage{Input: input, Output: output, CostUSD: cost, Model: model}); err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
			t.Errorf("%q has the value %v", text, n)
		}
	})
}

func TestD85ArgumentsThatReadersUnderstandDifferentlyAreErrors(t *testing.T) {
	t.Parallel()
	for args, ok := range map[string]bool{
		`{"a":1,"b":[{"c":null}]}`:     true,
		` `:                            true,
		`{"a":1,"a":2}`:                false,
		`{"a":1,"\u0061":2}`:           false,
		`{"amount":1,"Amount":2}`:      false,
		`{"usd":1,"uſd":9999}`:         false, // a long s, which is an s to readers that fold names as Unicode does
		`{"k":1,"K":2}`:                false, // the sign for kelvin
		`{"x":[{"b":1,"B":2}]}`:        false,
		`[1]`:                          false,
		`{"a":1}{"a":2}`:               false,
		`{"a":`:                        false,
		`{"a":1e999}`:                  false,
		`{"a":18446744073709551615}`:   true,
		`{"a":18446744073709551617}`:   false, // no integer of 64 bits, and another number in floating point
		`{"a":9007199254740993.5}`:     false,
		`{"a":18446744073709551614.5}`: false,
		`{"a":0.1}`:                    true,
		`{"a":1e300}`:                  true,
		`{"a":100000000000000000000}`:  true,
		`{"a":1` + strings.Repeat("0", 300) + `}`:                   false,
		`{"a":9007199254740992.` + strings.Repeat("0", 512) + `}`:   false,
		strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70): false,
		`{"a":"` + strings.Repeat("x", rule.MaxArgs) + `"}`:         false,
	} {
		if _, err := rule.Args([]byte(args)); (err == nil) != ok {
			t.Errorf("%.60s: %v", args, err)
		}
	}
	if got, err := rule.TextArgs([]byte("ls")); err != nil || got["input"] != "ls" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAnOperatorsSchemaDecides(t *testing.T) {
	t.Parallel()
	s, err := rule.ParseSchema(`{"type":"object","properties":{"to":{"type":"string","pattern":"^0x[0-9a-f]+$"},"n":{"type":"integer","maximum":3}},"required":["to"],"additionalProperties":false}`)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]bool{
		`{"to":"0xab","n":3}`: true, `{"to":"0xab"}`: true, `{"to":"x"}`: false, `{"n":1}`: false, `{"to":"0xa","n":4}`: false, `{"to":"0xa","m":1}`: false, `{"to":"0xa","n":1.5}`: false,
		`{"to":"0xa","n":9007199254740993}`: false,
	} {
		m, err := rule.Args([]byte(args))
		if err != nil || s.Allows(m) != want {
			t.Errorf("%s: %v, %v", args, s.Allows(m), err)
		}
	}
	if s, err = rule.ParseSchema(`{"properties":{"n":{"maximum":9007199254740992}}}`); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]bool{`{"n":9007199254740992}`: true, `{"n":9007199254740993}`: false, `{"n":18446744073709551615}`: false} {
		if m, err := rule.Args([]byte(args)); err != nil || s.Allows(m) != want {
			t.Errorf("%s: %v, %v", args, s.Allows(m), err)
		}
	}
	for text, want := range map[string]string{
		`{"type":`: "not JSON", `[]`: "not a JSON object", `{"type":"thing"}`: "at '/type': value must be one of", `{"$ref":"https://example.org/x"}`: "other schemas are not loaded", strings.Repeat(" ", 70<<10): "longer than",
	} {
		if _, err := rule.ParseSchema(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// FuzzArgs: any arguments are parsed or refused.
func FuzzArgs(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c"}],"d":null}`))
	c, err := rule.ParseCondition("args.a > 1 || has(args.b.c)")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		args, err := rule.Args(b)
		if err != nil {
			return
		}
		_, _ = c.Holds(&rule.Vars{Args: args})
	})
}
