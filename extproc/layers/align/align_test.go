package align_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/align"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// rules is a system prompt of many lines.
var rules = strings.Repeat("You watch positions and say what to do.\n", 60)

var dialects = map[string]wire.Dialect{
	"anthropic": anthropic.Dialect{}, "openai": openai.Dialect{}, "responses": responses.Dialect{},
	"gemini": gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", ""),
}

// request is a request of an account for a model.
func request(t testing.TB, dialect, body string) *pipeline.Exchange {
	t.Helper()
	r, err := dialects[dialect].Decode(chat.Generate, header.List{}, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{Request: r, Principal: policy.Principal{Account: "a"}, Found: []policy.Resolution{{Provider: "p", Model: "m"}}}
}

// messages is a Messages request with a system prompt and turns, of which the first is the user's.
func messages(system string, turns ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","max_tokens":9,"system":%q,"messages":[`, system)
	for i, turn := range turns {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], turn)
	}
	b.WriteString("]}")
	return b.String()
}

// cacheable gives the request a profile that wants its prompt cached.
func cacheable(x *pipeline.Exchange) *pipeline.Exchange {
	x.Request.Profile = &chat.Profile{Default: chat.Params{MarkCache: true}}
	return x
}

// run runs the layer and returns the plan, as "system tools end", where system is the bytes that repeat, or "all".
func run(t testing.TB, l align.Layer, x *pipeline.Exchange) string {
	t.Helper()
	if !l.Applies(x) {
		return "does not apply"
	}
	if err := l.Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	var out []string
	if p := x.Request.Cache; p != nil {
		switch p.System {
		case 0:
		case chat.WholePrompt:
			out = append(out, "all")
		default:
			out = append(out, fmt.Sprint(p.System))
		}
		if p.Tools {
			out = append(out, "tools")
		}
		if p.End {
			out = append(out, "end")
		}
	}
	return strings.Join(out, " ")
}

func newLayer() align.Layer { return align.Layer{Memory: align.NewMemory()} }

// plans runs the layer on one request after another.
func plans(t testing.TB, l align.Layer, prepare func(*pipeline.Exchange) *pipeline.Exchange, bodies ...string) (out []string) {
	t.Helper()
	for _, body := range bodies {
		x := request(t, "anthropic", body)
		if prepare != nil {
			x = prepare(x)
		}
		out = append(out, run(t, l, x))
	}
	return out
}

func numbered(n int, body func(i int) string) (out []string) {
	for i := range n {
		out = append(out, body(i))
	}
	return out
}

func TestMarksStandWhereTheyPay(t *testing.T) {
	size := fmt.Sprint(len(rules))
	tools := func(body, list string) string {
		return strings.Replace(body, `"max_tokens"`, `"tools":[`+list+`],"max_tokens"`, 1)
	}
	date := func(minute int) string {
		return fmt.Sprintf("%sCurrent time: 2026-11-24 10:%02d\nBe brief.\n", rules, minute)
	}
	for _, row := range []struct {
		about   string
		prepare func(*pipeline.Exchange) *pipeline.Exchange
		bodies  []string
		want    []string
	}{
		{
			"a cacheable prompt is marked from the first request on", cacheable,
			numbered(3, func(i int) string { return messages(rules, fmt.Sprint("tick ", i)) }),
			[]string{"all", "all", "all"},
		},
		{
			"another one is marked when it has repeated", nil,
			numbered(3, func(i int) string { return messages(rules, fmt.Sprint("question ", i)) }),
			[]string{"", "all", "all"},
		},
		{
			"K-25 a repeated request is sent as before", nil,
			numbered(4, func(int) string { return messages(rules, "the same") }),
			[]string{"", "", "", ""},
		},
		{
			"a part that plainly changes is after the mark from the beginning", cacheable,
			numbered(3, func(i int) string { return messages(date(i), fmt.Sprint(i)) }),
			[]string{size, size, size},
		},
		{
			"a part that has changed is after the mark from then on", cacheable,
			numbered(4, func(i int) string { return messages(rules+fmt.Sprintf("Mood: %c\nBe brief.", 'a'+i), fmt.Sprint(i)) }),
			[]string{"all", size, size, size},
		},
		{
			"a part that changes rarely is before the mark again", cacheable,
			[]string{
				messages(rules+"Day: Monday", "1"), messages(rules+"Day: Tuesday", "2"), messages(rules+"Day: Tuesday", "3"), messages(rules+"Day: Tuesday", "4"),
				messages(rules+"Day: Tuesday", "5"), messages(rules+"Day: Tuesday", "6"), messages(rules+"Day: Tuesday", "7"),
			},
			[]string{"all", size, size, size, size, "all", "all"},
		},
		{
			"a conversation is marked at its end when it continues", nil,
			[]string{messages(rules, "1"), messages(rules, "1", "a", "2"), messages(rules, "1", "a", "2", "b", "3"), messages(rules, "1", "a", "2", "b", "3")},
			[]string{"", "all end", "all end", "all end"},
		},
		{
			"not if its first turns are removed", nil,
			[]string{messages(rules, "1"), messages(rules, "2", "a", "3"), messages(rules, "3", "b", "4")},
			[]string{"", "all", "all"},
		},
		{
			"not if its last turns are removed", nil,
			[]string{messages(rules, "1", "a", "2"), messages(rules, "1"), messages(rules, "1", "b", "3")},
			[]string{"", "all", "all end"},
		},
		{
			"not if a turn was changed", nil,
			[]string{messages(rules, "1", "a", "2"), messages(rules, "1", "A", "2", "b", "3"), messages(rules, "1", "A", "2", "B", "3", "c", "4")},
			[]string{"", "all", "all"},
		},
		{
			"not after a prompt that changes", nil,
			[]string{messages(date(1), "1"), messages(date(2), "1", "a", "2"), messages(date(3), "1", "a", "2", "b", "3")},
			[]string{"", size, size},
		},
		{
			"a prompt that never repeats is not marked", func(x *pipeline.Exchange) *pipeline.Exchange {
				x.Hints.Subsystem = "risk"
				return cacheable(x)
			},
			numbered(4, func(i int) string { return messages(fmt.Sprintf("%c%s", 'a'+i, rules), fmt.Sprint(i)) }),
			[]string{"all", "", "", ""},
		},
		{
			"tools are marked with the prompt", cacheable,
			numbered(2, func(i int) string { return tools(messages(rules, fmt.Sprint(i)), `{"name":"f"}`) }),
			[]string{"all tools", "all tools"},
		},
		{
			"nothing is marked after tools that change from request to request", func(x *pipeline.Exchange) *pipeline.Exchange {
				x.Hints.Subsystem = "risk"
				return cacheable(x)
			},
			numbered(4, func(i int) string { return tools(messages(rules, fmt.Sprint(i)), fmt.Sprintf(`{"name":"f%d"}`, i)) }),
			[]string{"all tools", "all tools", "", ""},
		},
		{
			"K-24 with a client's own marks, no others are set", nil,
			numbered(3, func(i int) string {
				return strings.Replace(messages(rules, "1", "a", "2"), `"content":"2"`, fmt.Sprintf(`"content":[{"type":"text","text":"%d","cache_control":{"type":"ephemeral"}}]`, i), 1)
			}),
			[]string{"", "", ""},
		},
		{
			"unless the profile wants marks", cacheable,
			numbered(2, func(i int) string {
				return tools(strings.Replace(messages(rules, "1"), `"content":"1"`, fmt.Sprintf(`"content":[{"type":"text","text":"%d","cache_control":{"type":"ephemeral"}}]`, i), 1), `{"name":"f"}`)
			}),
			[]string{"all tools", "all tools"},
		},
		{
			"two agents without ids", func(x *pipeline.Exchange) *pipeline.Exchange {
				x.Hints.Subsystem = "risk"
				return cacheable(x)
			},
			numbered(10, func(i int) string { return messages(rules+[]string{"You are A.", "You are B."}[i%2], fmt.Sprint(i)) }),
			[]string{"all", size, "all", size, "all", size, "all", size, "all", "all"},
		},
		{"a short request is not changed", cacheable, []string{messages("Be brief.", "hi")}, []string{"does not apply"}},
	} {
		t.Run(row.about, func(t *testing.T) {
			if got := plans(t, newLayer(), row.prepare, row.bodies...); !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestMarksCanBeTurnedOff(t *testing.T) {
	l := newLayer()
	l.NoMarks = true
	if got := run(t, l, cacheable(request(t, "anthropic", messages(rules, "1")))); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestAStreamThatIsTooSlowForTheCacheIsNotMarked: a cache entry expires after five minutes.
func TestAStreamThatIsTooSlowForTheCacheIsNotMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLayer()
		var got []string
		for i, wait := range []int{0, 4, 6, 6, 6, 1, 4} {
			time.Sleep(time.Duration(wait) * time.Minute) //nolint:forbidigo // synctest's time
			got = append(got, run(t, l, cacheable(request(t, "anthropic", messages(rules, fmt.Sprint(i))))))
		}
		if want := []string{"all", "all", "all", "", "", "all", "all"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestK91StreamsAreSeparate: requests of one tenant, model or subsystem do not influence those of another.
func TestK91StreamsAreSeparate(t *testing.T) {
	for about, change := range map[string]func(*pipeline.Exchange){
		"an account":  func(x *pipeline.Exchange) { x.Principal.Account = "b" },
		"a model":     func(x *pipeline.Exchange) { x.Found[0].Model = "n" },
		"an agent":    func(x *pipeline.Exchange) { x.Hints.GolemID = "g" },
		"a subsystem": func(x *pipeline.Exchange) { x.Hints.Subsystem = "s" },
		"a session":   func(x *pipeline.Exchange) { x.Hints.SessionID = "s" },
	} {
		l := newLayer()
		run(t, l, request(t, "anthropic", messages(rules, "1")))
		x := request(t, "anthropic", messages(rules, "2"))
		change(x)
		if got := run(t, l, x); got != "" {
			t.Errorf("%s: %s", about, got)
		}
		if got := run(t, l, request(t, "anthropic", messages(rules, "3"))); got != "all" {
			t.Errorf("the first one goes on as %q", got)
		}
	}
}

func TestK90TheMemoryIsBounded(t *testing.T) {
	l := newLayer()
	for i := range 2500 {
		x := request(t, "anthropic", messages(rules, fmt.Sprint(i)))
		x.Hints.SessionID = fmt.Sprint(i)
		run(t, l, x)
	}
	if n := l.Memory.Len(); n != 2048 {
		t.Errorf("%d streams are remembered", n)
	}
}

// TestD35FlaggedBlocksAreOrdered: static first, volatile last, with the mark before these. All other bytes are unchanged.
func TestD35FlaggedBlocksAreOrdered(t *testing.T) {
	for _, row := range []struct{ about, dialect, body, want, plan string }{
		{
			"blocks", "anthropic",
			`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"v1","bardo":"volatile"}, {"type":"text","text":"u1"},{"bardo":"static","type":"text","text":"s1"} ,{"type":"text","text":"u2"}],"messages":[{"role":"user","content":"hi"}]}`,
			`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s1"}, {"type":"text","text":"u1"},{"type":"text","text":"u2"} ,{"type":"text","text":"v1"}],"messages":[{"role":"user","content":"hi"}]}`, "6",
		},
		{
			"blocks in order", "anthropic",
			`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s1","bardo":"static"},{"type":"text","text":"v1","bardo":"volatile"}],"messages":[{"role":"user","content":"hi"}]}`,
			`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s1"},{"type":"text","text":"v1"}],"messages":[{"role":"user","content":"hi"}]}`, "2",
		},
		{
			"a client's own mark keeps the order", "anthropic",
			`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"v1","bardo":"volatile"},{"type":"text","text":"s1","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}`,
			`{"model":"m","max_tokens":9,"system":[{"type":"text","text":"v1"},{"type":"text","text":"s1","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}`, "",
		},
		{
			"messages, and parts in them", "openai",
			`{"model":"m","messages":[{"role":"system","content":"v1","bardo":"volatile"},{"role":"developer","content":[{"type":"text","text":"v2","bardo":"volatile"},{"type":"text","text":"u1"}]},{"role":"user","content":"hi"}]}`,
			`{"model":"m","messages":[{"role":"developer","content":[{"type":"text","text":"u1"},{"type":"text","text":"v2"}]},{"role":"system","content":"v1"},{"role":"user","content":"hi"}]}`, "2",
		},
		{
			"messages after the first turn are not moved", "openai",
			`{"model":"m","messages":[{"role":"system","content":"u1"},{"role":"user","content":"hi"},{"role":"system","content":[{"type":"text","text":"v","bardo":"volatile"},{"type":"text","text":"s","bardo":"static"}]}]}`,
			`{"model":"m","messages":[{"role":"system","content":"u1"},{"role":"user","content":"hi"},{"role":"system","content":[{"type":"text","text":"v"},{"type":"text","text":"s"}]}]}`, "all",
		},
		{
			"items, after the instructions", "responses",
			`{"model":"m","instructions":"i1","input":[{"role":"developer","content":[{"type":"input_text","text":"v1","bardo":"volatile"}]},{"role":"system","content":"u1"},{"role":"user","content":"hi"}]}`,
			`{"model":"m","instructions":"i1","input":[{"role":"system","content":"u1"},{"role":"developer","content":[{"type":"input_text","text":"v1"}]},{"role":"user","content":"hi"}]}`, "4",
		},
		{
			"Gemini's parts", "gemini",
			`{"systemInstruction":{"role":"user","parts":[{"text":"v1","bardo":"volatile"},{"text":"s1","bardo":"static"}]},"contents":[{"role":"user","parts":[{"text":"hi","bardo":"static"}]}]}`,
			`{"systemInstruction":{"role":"user","parts":[{"text":"s1"},{"text":"v1"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, "2",
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			x := cacheable(request(t, row.dialect, row.body))
			if len(x.Request.Flags) == 0 { // otherwise too short for the layer
				x.Request.Flags = []chat.Flag{{Turn: 99}}
			}
			plan := run(t, newLayer(), x)
			body := string(x.Request.Edit.AppendTo(nil, &x.Request.Doc))
			if body != row.want || plan != row.plan {
				t.Errorf("got  %s\nwant %s\nplan %q, want %q", body, row.want, plan, row.plan)
			}
		})
	}
}

// TestAVolatileLastMessageIsNotMarked, since the next request will not have it.
func TestAVolatileLastMessageIsNotMarked(t *testing.T) {
	l := newLayer()
	run(t, l, request(t, "anthropic", messages(rules, "1")))
	body := strings.Replace(messages(rules, "1", "a", "2"), `"content":"2"`, `"content":[{"type":"text","text":"2","bardo":"volatile"}]`, 1)
	if got := run(t, l, request(t, "anthropic", body)); got != "all" {
		t.Errorf("got %q", got)
	}
}

func TestK26ToolsAreSortedOnlyIfTheirOrderChanges(t *testing.T) {
	with := func(question, list string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":%q}],"tools":[%s]}`, rules, question, list)
	}
	f := func(name, more string) string {
		return fmt.Sprintf(`{"type":"function","function":{"name":%q}%s}`, name, more)
	}
	const mark = `,"cache_control":{"type":"ephemeral"}`
	for _, row := range []struct {
		about      string
		lists      []string
		want, last string // the tools of the last request
	}{
		{"one order", []string{f("b", "") + " , " + f("a", ""), f("b", "") + " , " + f("a", "")}, f("b", "") + " , " + f("a", ""), ""},
		{"another one", []string{f("b", "") + "," + f("a", ""), f("a", "") + "," + f("b", ""), f("b", "") + " , " + f("a", "")}, f("a", "") + " , " + f("b", ""), "tools"},
		{"another set", []string{f("b", ""), f("b", "") + "," + f("a", "")}, f("b", "") + "," + f("a", ""), ""},
		{"a mark", []string{f("b", mark) + "," + f("a", ""), f("a", "") + "," + f("b", mark), f("b", mark) + "," + f("a", "")}, f("b", mark) + "," + f("a", ""), ""},
		{"a name twice", []string{f("b", "") + "," + f("b", ",\"x\":1"), f("b", ",\"x\":1") + "," + f("b", "")}, f("b", ",\"x\":1") + "," + f("b", ""), ""},
		{"no name", []string{f("b", "") + `,{"type":"x"}`, `{"type":"x"},` + f("b", "")}, `{"type":"x"},` + f("b", ""), ""},
	} {
		l := newLayer()
		var x *pipeline.Exchange
		for i, list := range row.lists {
			x = request(t, "openai", with(fmt.Sprint(i), list))
			run(t, l, x)
		}
		body := string(x.Request.Edit.AppendTo(nil, &x.Request.Doc))
		if want := with(fmt.Sprint(len(row.lists)-1), row.want); body != want {
			t.Errorf("%s: got  %s\nwant %s", row.about, body[len(rules):], want[len(rules):])
		}
		if did := x.Log[0].Note; strings.Contains(did, "tools-order") != (row.last != "") {
			t.Errorf("%s: it says %q", row.about, did)
		}
	}
}

// TestLongLinesAreDividedIntoSentences: a prompt without line breaks has a boundary, too.
func TestLongLinesAreDividedIntoSentences(t *testing.T) {
	prose := strings.Repeat("You watch positions and say what to do. ", 60)
	got := plans(t, newLayer(), cacheable, messages(prose+"It is Monday. Be brief.", "1"), messages(prose+"It is Tuesday. Be brief.", "2"))
	if want := []string{"all", fmt.Sprint(len(prose))}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatPlainlyChanges(t *testing.T) {
	for line, want := range map[string]bool{
		"Current time: 10:31":                      true,
		"The current date and time is Nov 24 9:05": true,
		"2026-11-24T10:31:05Z":                     true,
		"as of 2026-11-24 10:31":                   true,
		"Tick 1234":                                true,
		"tick id: 88":                              true,
		"Block height: 21000000":                   true,
		"timestamp = 1790000000":                   true,
		"request_id: 3f2504e0-4f89":                true,
		"Today's date: 2026-11-24":                 false, // it changes once a day
		"Step 12: look at the pools":               false,
		"Run every 10:30 in the morning":           false,
		"You tick boxes.":                          false,
		"Block trades above 100 ETH":               false,
	} {
		if got := align.PlainlyChanges(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// FuzzLayer: any request is aligned without a panic, and its document stays valid.
func FuzzLayer(f *testing.F) {
	f.Add(messages(rules, "1", "a", "2"), "anthropic")
	f.Add(`{"model":"m","max_tokens":1,"system":[{"text":"","bardo":"volatile"},1,{"bardo":"static"}],"messages":[]}`, "anthropic")
	f.Add(`{"model":"m","messages":[{"role":"system","content":[[],{"bardo":"volatile"},""],"bardo":"static"},{"role":"developer","bardo":"volatile"}],"tools":[{},{"name":"a"}]}`, "openai")
	f.Fuzz(func(t *testing.T, body, dialect string) {
		d, ok := dialects[dialect]
		if !ok {
			return
		}
		r, err := d.Decode(chat.Generate, header.List{}, "", []byte(body))
		if err != nil {
			return
		}
		l := newLayer()
		for range 2 {
			again := *r
			x := &pipeline.Exchange{Request: &again, Found: []policy.Resolution{{Model: "m"}}}
			if err := l.Request(t.Context(), cacheable(x)); err != nil {
				t.Fatal(err)
			}
			if p := x.Request.Cache; p != nil && p.System < 0 {
				t.Fatalf("the plan is %+v", p)
			}
		}
	})
}
