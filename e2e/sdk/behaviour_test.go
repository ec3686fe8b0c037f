package sdk

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"bardo.money/gateway/e2e/fake"
)

// said is a text that careless programs break: composed and combining accents, wide characters, joined emoji, a character
// outside the basic plane at the end, right-to-left script, line separators, NUL, and what JSON and HTML escape.
const said = "naïve cafe\u0301 — 日本語 — 🦊👩‍👩‍👧 — עברית \u200f— <b>&\"\\\u2028\u0000\t\n𝄞"

const (
	largeAnswer = 1000            // words of 1 KiB
	beat        = 2 * time.Second // the gateway's heartbeat; an error that takes longer comes as an event of a stream with status 200
)

var weather = []fake.ToolCall{
	{Name: "get_weather", Args: `{"city":"Paris"}`, Pieces: 4}, {Name: "get_weather", Args: `{"city":"Rome"}`},
}

// breaks is a provider that closes the connection in the middle of its answer. A reset would take with it what was not read yet.
var breaks = fake.Behaviour{Tokens: 9, Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens, Tokens: 3}}

// behaviours are what the models of both providers do. A model's id is the run's prefix, a hyphen and one of these names.
var behaviours = withErrors(map[string]fake.Behaviour{
	"chat":          {},
	"tools":         {Text: "Let me see.", ToolCalls: weather},
	"loop":          {ToolCalls: weather[:1], Answered: &fake.Behaviour{Text: "It is sunny."}},
	"thinks":        {Thoughts: []fake.Thought{{Text: "let me think"}}},
	"unicode":       {Text: said, Shape: fake.Shape{Cut: 5}},
	"unicode-tools": {ToolCalls: []fake.ToolCall{{Name: "get_weather", Args: `{"city":"` + escaped(said) + `"}`, Pieces: 50}}},
	"files":         {},
	"json":          {Text: `{"city":"Paris"}`},
	"large":         {Tokens: largeAnswer, TokenSize: 1 << 10},
	"slow":          {Tokens: 600, Gap: 100 * time.Millisecond},
	"quiet":         {Tokens: 3, Gap: 3 * beat / 2},
	"quiet2":        {Tokens: 3, FirstToken: 5 * beat / 2},
	"retry":         {Status: http.StatusTooManyRequests, RetryAfter: "1", Recovers: 900 * time.Millisecond},
	"dies":          breaks,
	"dies2":         breaks,
})

// statuses are those that a provider refuses with.
var statuses = []int{400, 401, 402, 403, 404, 413, 422, 429, 500, 502, 503, 504, 529}

func withErrors(bs map[string]fake.Behaviour) map[string]fake.Behaviour {
	for _, status := range statuses {
		bs[strconv.Itoa(status)] = fake.Behaviour{Status: status}
	}
	bs["429"] = fake.Behaviour{Status: http.StatusTooManyRequests, RetryAfter: "2"}
	return bs
}

// twice are the behaviours that a second provider has too, with the same manners: their streams have another candidate.
var twice = []string{"dies2", "quiet2"}

// escaped is a string inside a JSON string, with every character escaped, those outside the basic plane as two.
func escaped(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, `\u%04x`, u)
	}
	return b.String()
}
