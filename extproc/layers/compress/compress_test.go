package compress_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// call is a call of a tool with its result.
type call struct{ tool, arguments, result string }

// callsBody is a conversation of calls in OpenAI's format, one after another, with a mark of the client at the end.
func callsBody(calls []call) string {
	messages := []any{map[string]any{"role": "system", "content": "system"}, map[string]any{"role": "user", "content": "begin"}}
	for i, c := range calls {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "content": fmt.Sprint("thought ", i), "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": c.tool, "arguments": c.arguments},
			}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": c.result})
	}
	raw, _ := json.Marshal(map[string]any{"model": "m", "messages": messages})
	return string(raw)
}

// run passes a body through the layer, and returns the resulting transcript and what was saved.
func run(t testing.TB, body string, cached bool) (*transcript.Transcript, int64) {
	t.Helper()
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{Request: r, Found: []policy.Resolution{{}}}
	if cached {
		x.Found[0].MinCache = 1024
	}
	if err := pipeline.New(compress.Layer{}).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Request.Conversation(); err != nil {
		t.Fatal(err)
	}
	tr, err := transcript.Of(x.Request)
	if err != nil {
		t.Fatal(err)
	}
	saved := int64(0)
	for _, e := range x.Log {
		saved += e.Saved
	}
	return tr, saved
}

// results are the texts of the results, in their order.
func results(tr *transcript.Transcript) (out []string) {
	for i, at := range tr.Texts {
		if at.Kind == transcript.Result {
			out = append(out, tr.String(i))
		}
	}
	return out
}

func long(word string) string { return strings.Repeat(word+" ", 4000) }

// TestD34EqualResultsAreSentOnce: immediately, also in the last turn; the same text of another call is kept.
func TestD34EqualResultsAreSentOnce(t *testing.T) {
	a := call{"Read", `{"path":"a"}`, long("alpha")}
	got := results(first(run(t, callsBody([]call{a, {"Read", `{"path":"b"}`, long("alpha")}, a, a}), true)))
	want := []string{long("alpha"), long("alpha"), "[The same as the result of call call_0 above.]", "[The same as the result of call call_0 above.]"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("results are %.300q", got)
	}
}

func first(tr *transcript.Transcript, _ int64) *transcript.Transcript { return tr }

// TestD34OutdatedResultsGoBehindTheLastTurns: without a prompt cache as soon as they are before the last turns, with one when it pays.
func TestD34OutdatedResultsGoBehindTheLastTurns(t *testing.T) {
	old := strings.Repeat(long("old"), 2)
	calls := []call{{"Read", `{"path":"a"}`, old}, {"Read", `{"path":"a"}`, long("new")}}
	for i := range 6 {
		calls = append(calls, call{"Think", fmt.Sprint(i), fmt.Sprint("short ", i)})
	}
	for n := 2; n <= len(calls); n++ {
		got := results(first(run(t, callsBody(calls[:n]), false)))
		gone := got[0] != old
		if want := n >= 6; gone != want || got[1] != long("new") {
			t.Errorf("after %d calls the outdated result is gone: %v, want %v; the new one: %.20q", n, gone, want, got[1])
		}
	}
	if got := results(first(run(t, callsBody(calls), true))); got[0] != old {
		t.Errorf("with a cache, in a short conversation: %.40q", got[0])
	}
	for i := range 8 {
		calls = append(calls, call{"Think", fmt.Sprint(6 + i), fmt.Sprint("short ", i)})
	}
	if got := results(first(run(t, callsBody(calls), true))); !strings.HasPrefix(got[0], "[Out of date") {
		t.Errorf("with a cache, in a long one: %.40q", got[0])
	}
	big := append([]call{calls[0], calls[1]}, call{"Other", "{}", strings.Repeat(long("much"), 20)})
	big = append(big, calls[2:]...)
	if got := results(first(run(t, callsBody(big), true))); got[0] != old {
		t.Errorf("although writing the cache again costs more: %.40q", got[0])
	}
}

// TestD34JSONLosesItsWhiteSpace, unless it is a file that an agent may edit.
func TestD34JSONLosesItsWhiteSpace(t *testing.T) {
	rows := make([]map[string]any, 400)
	for i := range rows {
		rows[i] = map[string]any{"id": i, "price": json.Number("1.50"), "text": "a  b"}
	}
	pretty, _ := json.MarshalIndent(rows, "", "    ")
	compact, _ := json.Marshal(rows)
	for tool, want := range map[string]string{"list_orders": string(compact), "read_file": string(pretty)} {
		calls := []call{{tool, "{}", string(pretty)}}
		for i := range 5 {
			calls = append(calls, call{"Think", fmt.Sprint(i), "short"})
		}
		if got := results(first(run(t, callsBody(calls), false)))[0]; got != want {
			t.Errorf("%s: the result is %.80q", tool, got)
		}
	}
}

// TestK73K74HistoriesStayWhole: for any calls, every call keeps its result, only results are changed, no request grows, and a longer conversation begins with
// what was sent before, unless a change saves tokens.
func TestK73K74HistoriesStayWhole(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var calls []call
		for range 3 + rng.IntN(30) {
			calls = append(calls, call{
				[]string{"Read", "get_rows", "Bash"}[rng.IntN(3)], fmt.Sprintf(`{"n":%d}`, rng.IntN(3)),
				strings.Repeat([]string{"one ", "two ", "[1,  2]"}[rng.IntN(3)], 1+rng.IntN(3)*1500),
			})
		}
		for _, cached := range []bool{false, true} {
			body := callsBody(calls)
			was, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			before, _ := transcript.Of(was)
			after, saved := run(t, body, cached)
			if len(before.Turns) != len(after.Turns) || len(after.Doc().Bytes) > len(body) || saved > 0 != (len(after.Doc().Bytes) < len(body)) {
				t.Fatalf("%d: %d turns became %d, %d bytes %d, %d saved", seed, len(before.Turns), len(after.Turns), len(body), len(after.Doc().Bytes), saved)
			}
			for i := range before.Texts {
				if before.Texts[i].Kind != transcript.Result && before.String(i) != after.String(i) {
					t.Fatalf("%d: text %d changed", seed, i)
				}
			}
			for i := range before.Turns {
				if callsIn(before, i) != callsIn(after, i) {
					t.Fatalf("%d: turn %d has other calls or results", seed, i)
				}
			}
		}
	}
}

// callsIn writes the calls and the results of a turn.
func callsIn(tr *transcript.Transcript, turn int) string {
	out := fmt.Sprint(tr.Turns[turn].Answers)
	for _, c := range tr.Turns[turn].Calls {
		out += " " + c.ID + c.Name
	}
	return out
}

// FuzzAnyConversation: a document of any shape passes without a panic, and does not grow.
func FuzzAnyConversation(f *testing.F) {
	f.Add(callsBody([]call{{"Read", "{}", long("a")}, {"Read", "{}", long("a")}, {"Read", "{}", long("b")}}))
	f.Fuzz(func(t *testing.T, body string) {
		r, err := anthropic.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(body))
		if err != nil {
			return
		}
		x := &pipeline.Exchange{Request: r}
		if err := (compress.Layer{Recall: true}).Request(t.Context(), x); err != nil || len(x.Request.Doc.Bytes) > len(body) {
			t.Fatalf("%v: %d bytes became %d", err, len(body), len(x.Request.Doc.Bytes))
		}
	})
}

// changeOf is the layer's report about where it changed a conversation.
func changeOf(t *testing.T, calls []call, knob int) pipeline.Entry {
	t.Helper()
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(callsBody(calls)))
	if err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{Request: r, Found: []policy.Resolution{{MinCache: 1024}}, Knobs: policy.Knobs{CompressFrom: knob}}
	if err := pipeline.New(compress.Layer{}).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if len(x.Log) == 0 {
		return pipeline.Entry{}
	}
	return x.Log[0]
}

// TestWhereAHistoryChanges: the value of a saving depends on it. New parts were in no cache; a change of what the previous request had invalidates the cache from
// there on, once.
func TestWhereAHistoryChanges(t *testing.T) {
	a := call{"Read", `{"path":"a"}`, long("alpha")}
	e := changeOf(t, []call{a, a}, 0)
	if e.Removed <= 0 || e.Change.New != e.Saved || e.Change.Again != 0 || e.Change.Before < 5000 {
		t.Errorf("a new result: %+v", e)
	}
	e = changeOf(t, []call{a, a, {"Think", "1", "short"}}, 0)
	if e.Removed <= 0 || e.Change.New != 0 || e.Change.Again != 0 {
		t.Errorf("one turn later: %+v", e)
	}

	calls := []call{{"Read", `{"path":"a"}`, strings.Repeat(long("old"), 2)}, {"Read", `{"path":"a"}`, long("new")}}
	moved := 0
	for i := range 14 {
		e := changeOf(t, calls, 0)
		if e.Change.Again > 0 {
			moved++
			if most := int64(len(callsBody(calls))) * 2 / 7; e.Change.Again < 4000 || e.Change.Again > most-e.Saved || e.Change.New != 0 || e.Change.Before > 100 {
				t.Errorf("the horizon moves: %+v of %d", e, most)
			}
		}
		calls = append(calls, call{"Think", fmt.Sprint(i), fmt.Sprint("short ", i)})
	}
	if moved != 1 {
		t.Errorf("the prompt was written again %d times", moved)
	}
}

// TestResultsOfUnchangedRequestsAreKept: earlier requests were too short for the layer, so that the provider's cache has the repeated result.
func TestResultsOfUnchangedRequestsAreKept(t *testing.T) {
	short := strings.Repeat("alpha ", 600)
	a, json := call{"Read", `{"path":"a"}`, short}, call{"List", `{}`, "{ \"a\":   \"" + short + "\" }"}
	b := call{"Read", `{"path":"b"}`, strings.Repeat("beta ", 1800)}
	if e := changeOf(t, []call{a, a, json, b}, 0); e.Removed != 0 || e.Change.New != 0 || e.Change.Again != 0 {
		t.Errorf("%+v", e)
	}
	if e := changeOf(t, []call{b, b, a, a}, 0); e.Change.New <= 0 || e.Change.New >= e.Saved || e.Change.Again != 0 {
		t.Errorf("behind a long one: %+v", e)
	}
	calls, again := []call{a, a, a, a, b}, 0
	for i := range 30 {
		if e := changeOf(t, calls, 0); e.Change.Again > 0 {
			again++
		}
		calls = append(calls, call{"Think", fmt.Sprint(i), fmt.Sprint("short ", i)})
	}
	if e := changeOf(t, calls, 0); again != 1 || e.Removed <= 0 {
		t.Errorf("the prompt was written again %d times: %+v", again, e)
	}
}

// TestUnchangedRequestsDecideNothing: a change that would have paid in a request that was too short for the layer is decided by the present request.
func TestUnchangedRequestsDecideNothing(t *testing.T) {
	calls := []call{{"Read", `{"path":"a"}`, strings.Repeat("old ", 2900)}, {"Read", `{"path":"a"}`, strings.Repeat("new ", 100)}}
	for i := range 14 {
		calls = append(calls, call{"Think", fmt.Sprint(i), fmt.Sprint("short ", i)})
	}
	if e := changeOf(t, calls, 4<<10); e.Removed <= 0 {
		t.Fatalf("it does not pay where the layer has run before: %+v", e)
	}
	if e := changeOf(t, append(calls, call{"Read", `{"path":"b"}`, strings.Repeat("large ", 4000)}), 0); e.Removed != 0 || e.Change.Again != 0 {
		t.Errorf("it is changed when a large result comes: %+v", e)
	}
}

// TestAChangeThatSavesNothingIsNotMade: the note for a repetition is shorter than the note for an outdated result.
func TestAChangeThatSavesNothingIsNotMade(t *testing.T) {
	a := call{"Read", `{"path":"a"}`, long("old")}
	calls := []call{a, a, {"Read", `{"path":"a"}`, long("new")}}
	for i := range 6 {
		calls = append(calls, call{"Think", fmt.Sprint(i), fmt.Sprint("short ", i)})
	}
	const repeated = "[The same as the result of call call_0 above.]"
	if got := results(first(run(t, callsBody(calls), false))); !strings.HasPrefix(got[0], "[Out of date") || got[1] != repeated {
		t.Errorf("results are %.200q", got)
	}
}

// TestTheGovernorSaysFromHowManyBytesOn, within limits.
func TestTheGovernorSaysFromHowManyBytesOn(t *testing.T) {
	a := call{"Read", `{"path":"a"}`, strings.Repeat("alpha ", 600)} // 3,600 bytes
	for _, row := range []struct {
		calls, knob int
		runs        bool
	}{{6, 0, true}, {6, 64 << 10, false}, {3, 0, false}, {3, 8 << 10, true}, {1, 1, false}} {
		e := changeOf(t, slices.Repeat([]call{a}, row.calls), row.knob)
		if (e.Saved > 0) != row.runs {
			t.Errorf("%+v: %+v", row, e)
		}
	}
}
