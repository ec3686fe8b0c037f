package compress_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// file is a text of n lines that have nothing in common with those of another name.
func file(name string, lines int) []string {
	out := make([]string, lines)
	for i := range out {
		out[i] = fmt.Sprintf("%s: line %d has the value %x", name, i, i*2654435761%99991)
	}
	return out
}

// TestC11NearlyEqualResultsAreToldApart: the newest is kept, and nothing of the older one is lost, whatever differs.
func TestC11NearlyEqualResultsAreToldApart(t *testing.T) {
	whole := file("a", 300)
	edited := slices.Concat(whole[:10], []string{"new one", "new two"}, whole[12:200], whole[203:250], []string{"more"}, whole[250:])
	calls := []call{{"Read", `{"path":"a"}`, strings.Join(whole, "\n")}, {"Read", `{"path":"a","numbers":true}`, strings.Join(edited, "\n")}}
	calls = append(calls, thoughts(5)...)
	got := results(first(run(t, callsBody(calls), false)))
	if got[1] != calls[1].result {
		t.Errorf("the newest is %.200q", got[1])
	}
	want := "[Nearly the same as the result of call call_1 below. Where this one differed:]\nlines 11-12 there, instead:\n> " + whole[10] + "\n> " + whole[11] +
		"\nafter line 200 there, also:\n> " + whole[200] + "\n> " + whole[201] + "\n> " + whole[202] + "\nlines 248-248 there: not here"
	if got[0] != want {
		t.Errorf("the older one is %s", got[0])
	}
}

// thoughts are calls with short results.
func thoughts(n int) (out []call) {
	for i := range n {
		out = append(out, call{"Think", fmt.Sprint("t", i), fmt.Sprint("short ", i)})
	}
	return out
}

// TestC11TheBaseOfADifferenceIsKept: a result that is the base of an older one is not replaced as outdated, unless the new result of its call becomes the
// base.
func TestC11TheBaseOfADifferenceIsKept(t *testing.T) {
	a := file("a", 300)
	part, again := slices.Concat(a[:299], []string{"end"}), slices.Concat(a[:298], []string{"other", "end"})
	other := file("b", 300)
	join := func(lines []string) string { return strings.Join(lines, "\n") }
	for _, row := range []struct {
		about  string
		second string // the second result of the call that the first one needs
		want   [3]string
	}{
		{"it is near", join(again), [3]string{"[Nearly the same as the result of call call_2 below.", "[Out of date", join(again)}},
		{"it is not", join(other), [3]string{"[Nearly the same as the result of call call_1 below.", join(part), join(other)}},
	} {
		calls := append([]call{{"Read", "whole", join(a)}, {"Read", "part", join(part)}, {"Read", "part", row.second}}, thoughts(6)...)
		got := results(first(run(t, callsBody(calls), false)))
		for i, want := range row.want {
			if !strings.HasPrefix(got[i], want) {
				t.Errorf("%s: result %d is %.90q, want %.90q", row.about, i, got[i], want)
			}
		}
	}
}

// FuzzDifferencesLoseNothing: applying the hunks to one text gives the other.
func FuzzDifferencesLoseNothing(f *testing.F) {
	f.Add("a\nb\nc", "a\nx\nc")
	f.Add("", "a")
	f.Add("a\nb\nc\nd", "b\nc\nd\na")
	f.Fuzz(func(t *testing.T, x, y string) {
		a, b := strings.Split(x, "\n"), strings.Split(y, "\n")
		hunks, ok := compress.Diff(a, b)
		if !ok {
			return
		}
		var made []string
		at := 0
		for _, h := range hunks {
			from, to, was := h.Parts()
			if from < at || to < from || to > len(a) {
				t.Fatalf("hunks %+v", hunks)
			}
			made, at = append(append(made, a[at:from]...), was...), to
		}
		if made = append(made, a[at:]...); !slices.Equal(made, b) {
			t.Fatalf("%q and %q: %+v make %q", a, b, hunks, made)
		}
	})
}

// TestDifferencesLoseNothing: on random edits of a text.
func TestDifferencesLoseNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		a := make([]string, rng.IntN(60))
		for i := range a {
			a[i] = fmt.Sprint(rng.IntN(12))
		}
		b := slices.Clone(a)
		for range rng.IntN(12) {
			switch at := rng.IntN(len(b) + 1); {
			case at < len(b) && rng.IntN(2) == 0:
				b = slices.Delete(b, at, at+1)
			default:
				b = slices.Insert(b, at, fmt.Sprint("n", rng.IntN(12)))
			}
		}
		hunks, ok := compress.Diff(a, b)
		var made []string
		at := 0
		for _, h := range hunks {
			from, to, was := h.Parts()
			made, at = append(append(made, a[at:from]...), was...), to
		}
		if made = append(made, a[at:]...); !ok || !slices.Equal(made, b) {
			t.Fatalf("%q and %q: %+v make %q", a, b, hunks, made)
		}
	}
}

// TestC11TerminalsAreSentAsTheyLook: immediately, and only results of terminals.
func TestC11TerminalsAreSentAsTheyLook(t *testing.T) {
	var raw, shown strings.Builder
	for i := range 200 {
		fmt.Fprintf(&raw, "\x1b[32mok\x1b[0m  test %d\r\n", i)
		fmt.Fprintf(&shown, "ok  test %d\n", i)
	}
	raw.WriteString("\x1b]0;title\x0710%\r55%\r100% done\r\n")
	shown.WriteString("100% done\n")
	raw.WriteString(strings.Repeat("plain ", 2000))
	shown.WriteString(strings.Repeat("plain ", 2000))
	for tool, want := range map[string]string{"Bash": shown.String(), "run_command": shown.String(), "read_file": raw.String(), "fetch": raw.String()} {
		tr, saved := run(t, callsBody([]call{{tool, "{}", raw.String()}}), true)
		if got := results(tr)[0]; got != want || (saved > 0) != (want != raw.String()) {
			t.Errorf("%s: %.80q, %d saved", tool, got, saved)
		}
	}
}

// chatter is a conversation of calls, with texts of the user before some of them.
func chatter(calls []call, says map[int]string) string {
	body := callsBody(calls)
	for i, text := range says {
		at := fmt.Sprintf(`{"content":"thought %d"`, i)
		body = strings.Replace(body, at, fmt.Sprintf(`{"content":%q,"role":"user"},%s`, text, at), 1)
	}
	return body
}

const (
	invoices = "invoice amounts customers payments overdue reminder accounting ledger vendors receipts "
	weather  = "Which regions expect thunderstorms tomorrow morning, considering humidity, pressure gradients, satellite imagery, forecasts, radar echoes, wind shear, jet stream, " +
		"cloud cover, precipitation, temperature anomalies, coastal fog, alpine snow, monsoon onset, drought index and dewpoint spread?"
)

// TestC11IrrelevantResultsAreLeftOut: once the user asks for something else, and no message or call since has a word of the result. Lines that state a rule are
// kept.
func TestC11IrrelevantResultsAreLeftOut(t *testing.T) {
	result := strings.Repeat(invoices+"\n", 300) + "Refunds must not exceed 500 USD.\n" + strings.Repeat(invoices+"\n", 20)
	for _, row := range []struct {
		about   string
		says    map[int]string
		answers int
		left    bool
	}{
		{"another subject", map[int]string{1: weather}, 12, true},
		{"too few answers since", map[int]string{1: weather}, 6, false},
		{"no question since", nil, 12, false},
		{"the subject is mentioned again", map[int]string{1: weather, 3: "And the overdue ones?"}, 12, false},
		{"the subject is mentioned again after the decision", map[int]string{1: weather, 10: "And the overdue ones?"}, 12, true},
		{"too few words since", map[int]string{1: "go on"}, 12, false},
	} {
		calls := append([]call{{"list_open", `{}`, result}}, thoughts(row.answers)...)
		got := results(first(run(t, chatter(calls, row.says), false)))[0]
		want := result
		if row.left {
			want = fmt.Sprintf("[Left out: %d bytes that nothing asked since concerns.]\nRefunds must not exceed 500 USD.", len(result))
		}
		if got != want {
			t.Errorf("%s: %.100q", row.about, got)
		}
	}
}

// TestC11ARepetitionOfAnOmittedResultIsKept: it does not refer to the omitted result.
func TestC11ARepetitionOfAnOmittedResultIsKept(t *testing.T) {
	result := strings.Repeat(invoices+"\n", 300)
	calls := append([]call{{"list_open", `{}`, result}}, thoughts(10)...)
	calls = append(calls, call{"list_open", `{}`, result})
	got := results(first(run(t, chatter(calls, map[int]string{1: weather}), false)))
	if !strings.HasPrefix(got[0], "[Left out") || got[len(got)-1] != result {
		t.Errorf("%.80q, %.80q", got[0], got[len(got)-1])
	}
}

// TestD30EnclavesGetWhatWasSent: requests to enclaves are not changed.
func TestD30EnclavesGetWhatWasSent(t *testing.T) {
	r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(callsBody([]call{{"Read", "{}", long("a")}, {"Read", "{}", long("a")}})))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		in   policy.Intent
		want bool
	}{
		{policy.Intent{}, true},
		{policy.Intent{PrivacyTier: policy.PrivacyNoLog}, true},
		{policy.Intent{PrivacyTier: policy.PrivacyTEE}, false},
		{policy.Intent{PrivacyTier: policy.PrivacyEndToEnd}, false},
		{policy.Intent{Require: []policy.Feature{policy.TEEAttested}}, false},
	} {
		x := &pipeline.Exchange{Request: r, Intent: row.in}
		if got := (compress.Layer{}).Applies(x); got != row.want {
			t.Errorf("%+v: applies is %v", row.in, got)
		}
	}
}

// TestEachStepCanBeLeftOut: then it saves nothing, and the layer still reports the savings of the others.
func TestEachStepCanBeLeftOut(t *testing.T) {
	a := call{"Read", `{"path":"a"}`, long("alpha")}
	body := callsBody(append([]call{a, a, {"Read", `{"path":"a"}`, long("beta")}}, thoughts(6)...))
	log := func(l pipeline.Layer) pipeline.Entry {
		r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		x := &pipeline.Exchange{Request: r, Found: []policy.Resolution{{}}}
		if err := pipeline.New(l).Request(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		return x.Log[0]
	}
	if e := log(compress.Layer{}); !strings.HasPrefix(e.Note, "dedup=") || !strings.Contains(e.Note, ";stale=") {
		t.Errorf("%+v", e)
	}
	if e := log((compress.Layer{}).WithoutStep("stale")); !strings.HasPrefix(e.Note, "dedup=") || strings.Contains(e.Note, "stale") {
		t.Errorf("without stale: %+v", e)
	}
	if e := log((compress.Layer{}).WithoutStep("dedup")); strings.Contains(e.Note, "dedup") || !strings.HasPrefix(e.Note, "stale=") {
		t.Errorf("without dedup: %+v", e)
	}
}

// TestTheTranscriptKeepsItsCalls is a property of all steps together: only results are changed; calls, turns and other texts are not.
func TestTheTranscriptKeepsItsCalls(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		body := chatter(wild(rng), map[int]string{1 + rng.IntN(3): weather})
		was, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		before, _ := transcript.Of(was)
		after, _ := run(t, body, rng.IntN(2) == 0)
		if len(after.Doc().Bytes) > len(body) || len(after.Turns) != len(before.Turns) {
			t.Fatalf("%d: %d bytes became %d", seed, len(body), len(after.Doc().Bytes))
		}
		for i := range before.Texts {
			if before.Texts[i].Kind != transcript.Result && before.String(i) != after.String(i) {
				t.Fatalf("%d: text %d changed", seed, i)
			}
		}
	}
}

// wild are calls of all kinds: files that are edited and read in parts, terminals, JSON, repetitions.
func wild(rng *rand.Rand) (out []call) {
	text := file("f", 120)
	for range 4 + rng.IntN(20) {
		switch rng.IntN(5) {
		case 0:
			text = slices.Concat(text[:50], []string{fmt.Sprint("edit ", rng.IntN(9))}, text[51:])
			out = append(out, call{"Edit", fmt.Sprint(rng.IntN(9)), "done"})
		case 1:
			out = append(out, call{"Read", fmt.Sprint("from ", rng.IntN(4)), strings.Join(text[rng.IntN(4):], "\n")})
		case 2:
			out = append(out, call{"Bash", "make", "\x1b[31mred\x1b[0m\r\n" + strings.Join(text[:60], "\r\n")})
		case 3:
			out = append(out, call{"get_rows", "{}", "[\n  1,\n  2" + strings.Repeat(",\n  3", 400) + "\n]"})
		default:
			out = append(out, call{"list_open", "{}", strings.Repeat(invoices+"\n", 100+rng.IntN(2))})
		}
	}
	return out
}
