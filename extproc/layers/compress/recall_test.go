package compress_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

const someTools = `"tools":[{"type":"function","function":{"name":"Read"}},{"type":"function","function":{"name":"Think"}}],"messages"`

// recalling runs the layer with recall on a conversation with tools.
func recalling(t *testing.T, calls []call, change func(*pipeline.Exchange)) *pipeline.Exchange {
	t.Helper()
	r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(strings.Replace(callsBody(calls), `"messages"`, someTools, 1)))
	if err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{Request: r, Found: []policy.Resolution{{MinCache: 1024}}}
	if change != nil {
		change(x)
	}
	if err := pipeline.New(compress.Layer{Recall: true}).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return x
}

// outdated is a conversation in which a file is read again after it changed, and then other things happen.
func outdated(n int) []call {
	calls := []call{{"Read", `{"path":"a"}`, "old: " + strings.Repeat(long("old"), 3)}, {"Read", `{"path":"a"}`, long("new")}}
	for i := range n {
		calls = append(calls, call{"Think", fmt.Sprint(i), fmt.Sprint("short ", i)})
	}
	return calls
}

func recall(x *pipeline.Exchange, args string) pipeline.Result {
	return x.RoundResults(context.Background(), []chat.ToolCall{{ID: "c", Name: "bardo_recall", Args: args}})[0]
}

// TestB15WhatIsLeftOutIsFetchedBack, in parts if it is long; and it is counted.
func TestB15WhatIsLeftOutIsFetchedBack(t *testing.T) {
	x := recalling(t, outdated(6), nil)
	doc := string(x.Request.Doc.Bytes)
	if !strings.Contains(doc, "[Out of date: the same call was made again later. bardo_recall shows it: r1]") || !strings.Contains(doc, `"name":"bardo_recall"`) || x.Rounds() != 2 {
		t.Fatalf("%d rounds: %.3000s", x.Rounds(), doc)
	}
	want := outdated(0)[0].result
	var got strings.Builder
	for offset := 0; ; {
		res := recall(x, fmt.Sprintf(`{"id":"r1","offset":%d}`, offset))
		text, note, more := strings.Cut(res.Text, "\n[It goes on: call bardo_recall with offset ")
		if len(res.Text) > pipeline.MaxRoundResults || res.IsError {
			t.Fatalf("%d bytes: %.100s", len(res.Text), res.Text)
		}
		got.WriteString(text)
		if !more {
			break
		}
		if _, err := fmt.Sscanf(note, "%d.]", &offset); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != want {
		t.Errorf("%d bytes came back of %d", got.Len(), len(want))
	}
	for _, args := range []string{`{"id":"r2"}`, `{"id":"r1","offset":-1}`, `{"id":"r1","offset":99999999}`, `{}`, `[`} {
		if res := recall(x, args); !res.IsError || strings.Contains(res.Text, "old") {
			t.Errorf("%s: %+v", args, res)
		}
	}
	if note := x.Log[0].Note; !strings.HasPrefix(note, "stale=") || !strings.HasSuffix(note, ";recalled=3;answered=8") || x.Log[0].Recalled != 3 {
		t.Errorf("the log says %+v", x.Log[0])
	}
	if own, ok := x.TranslateCall(&chat.ToolCall{Name: "bardo_recall"}); ok {
		t.Errorf("the client gets %+v", own)
	}
}

// TestRecallIsOfferedOnlyWhereSomethingIsLost.
func TestRecallIsOfferedOnlyWhereSomethingIsLost(t *testing.T) {
	a := call{"Read", `{"path":"a"}`, long("alpha")}
	for about, x := range map[string]*pipeline.Exchange{
		"the conversation has it elsewhere": recalling(t, []call{a, a, a, a, a, a, a}, nil),
		"nothing is left out yet":           recalling(t, outdated(1), nil),
		"calls cannot be answered":          recalling(t, outdated(6), func(x *pipeline.Exchange) { x.NoRounds = true }),
		"the request is sealed":             recalling(t, outdated(6), func(x *pipeline.Exchange) { x.Intent.PrivacyTier = policy.PrivacyTEE }),
	} {
		if x.Rounds() != 0 || strings.Contains(string(x.Request.Doc.Bytes), "bardo_recall") {
			t.Errorf("%s: it is offered", about)
		}
	}
	if x := recalling(t, outdated(6), func(x *pipeline.Exchange) { x.NoRounds = true }); !strings.Contains(string(x.Request.Doc.Bytes), "later.]") {
		t.Error("without recall nothing is left out")
	}
}

// TestRecallKeepsThePromptsBeginning: once it is offered, tools and history are the same from turn to turn, and ids do not change.
func TestRecallKeepsThePromptsBeginning(t *testing.T) {
	before := recalling(t, outdated(6), nil)
	for n := 7; n < 12; n++ {
		x := recalling(t, outdated(n), nil)
		was, is := string(before.Request.Doc.Bytes), string(x.Request.Doc.Bytes)
		if !strings.HasPrefix(is, was[:strings.LastIndex(was, `],"model"`)]) {
			t.Fatalf("with %d calls the prompt begins otherwise", n)
		}
		before = x
	}
}

// TestRecallMustPayForItsDefinition: after a long prompt, which would have to be written to the provider's cache again, nothing is left out until it saves more.
func TestRecallMustPayForItsDefinition(t *testing.T) {
	calls := append([]call{{"Other", "{}", strings.Repeat(long("much"), 6)}}, outdated(6)...)
	if x := recalling(t, calls, nil); x.Rounds() != 0 || strings.Contains(string(x.Request.Doc.Bytes), "[Out of date") {
		t.Error("the whole prompt is written to the cache again")
	}
	tr, _ := run(t, callsBody(calls), true)
	if got := results(tr); !strings.HasPrefix(got[1], "[Out of date") {
		t.Errorf("where no tool is added, it pays: %.60q", got[1])
	}
}

// TestThePartsOfAResultAreComplete: each character is in exactly one part, and placeholders are not split.
func TestThePartsOfAResultAreComplete(t *testing.T) {
	const holder, most = "<EMAIL_3F2A9C7K>", 200
	for shift := range 40 {
		text := strings.Repeat("x", shift) + strings.Repeat("größe 価格 "+holder, 40)
		whole, offset, holders := "", 0, 0
		for range 1000 {
			part, more, goes := strings.Cut(compress.Page(text, offset, most), "\n[It goes on: call bardo_recall with offset ")
			whole, holders = whole+part, holders+strings.Count(part, holder)
			if len(part)+len(more) > most {
				t.Fatalf("a part has %d bytes", len(part))
			}
			if !goes {
				break
			}
			if n, err := fmt.Sscanf(more, "%d.]", &offset); n != 1 {
				t.Fatalf("%v in %q", err, more)
			}
		}
		if whole != text || holders != 40 {
			t.Fatalf("%d parts of placeholders, %d bytes of %d", holders, len(whole), len(text))
		}
	}
}
