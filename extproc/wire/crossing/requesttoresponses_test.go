package crossing_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/responses"
)

// toResponsesSide encodes for a model that reasons and accepts any effort.
var toResponsesSide = side{dialect: responses.Dialect{}, encode: func(r *chat.Request) ([]byte, []string, error) {
	return responses.EncodeRequest(nil, r, responses.RequestOptions{Model: "gpt", Reasons: true})
}}

var toResponses = []struct {
	dir  string
	from side
}{
	{"anthropic-to-responses", anthropicSide},
	{"openai-to-responses", openaiSide},
	{"gemini-to-responses", geminiSide},
}

func TestRequestsToResponses(t *testing.T) {
	for _, way := range toResponses {
		t.Run(way.dir, func(t *testing.T) {
			runPairs(t, "testdata/request/"+way.dir, func(t *testing.T, p pair) []txtar.File {
				t.Helper()
				o := responsesOptions(t, p.options())
				return crossed(t, way.from.dialect, p, func(r *chat.Request) (e encoded, err error) {
					e.body, e.degraded, err = responses.EncodeRequest(nil, r, o)
					return e, err
				})
			})
		})
	}
}

func responsesOptions(t *testing.T, lines []string) responses.RequestOptions {
	t.Helper()
	o := responses.RequestOptions{Model: "gpt"}
	for _, l := range lines {
		key, value, _ := strings.Cut(l, " ")
		switch key {
		case "reasons":
			o.Reasons = true
		case "unknown":
			o.Unknown = true
		case "no_summary":
			o.NoSummary = true
		case "no_thinking":
			o.NoThinking = true
		case "efforts":
			o.Efforts = strings.Fields(value)
		case "fixed_sampling":
			o.FixedSampling = true
		default:
			t.Fatalf("unknown option %q", l)
		}
	}
	return o
}

// FuzzEveryMemberIsSentOrNamedToResponses: see FuzzEveryMemberIsSentOrNamed.
func FuzzEveryMemberIsSentOrNamedToResponses(f *testing.F) {
	for i, way := range toResponses {
		all := pairs(f, "testdata/request/"+way.dir)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f.Add(all[name].file("in.json"), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, body string, n uint8) {
		way := toResponses[int(n)%len(toResponses)]
		if way.from.dialect != geminiClient {
			checkMembers(t, way.from, toResponsesSide, body)
			return
		}
		checkGeminiMembers(t, toResponsesSide, body)
	})
}

func TestK25ARequestToResponsesGivesTheSameBytes(t *testing.T) {
	for _, way := range toResponses {
		for name, p := range pairs(t, "testdata/request/"+way.dir) {
			first := encodeAcross(t, way.from, toResponsesSide, p.file("in.json"))
			for range 20 {
				if second := encodeAcross(t, way.from, toResponsesSide, p.file("in.json")); first != nil && (second.out != first.out || !slices.Equal(second.degraded, first.degraded)) {
					t.Fatalf("%s: %s\nthen\n%s", name, first.out, second.out)
				}
			}
		}
	}
}

// TestRequestsTranslatedToResponsesReadTheSame: a request that was written for Responses can be decoded, is not stored, and has the same
// content in the dialect that it came from.
func TestRequestsTranslatedToResponsesReadTheSame(t *testing.T) {
	for seed := range uint64(300) {
		for _, from := range []side{openaiSide, anthropicSide} {
			body := from.make(newGenerator(seed))
			a := encodeAcross(t, from, toResponsesSide, body)
			if a == nil {
				t.Fatalf("%s is refused", body)
			}
			r, err := responses.Dialect{}.Decode(chat.Generate, nil, "", []byte(a.out))
			if err != nil || !bytes.Contains(r.Doc.Get("store").Raw, []byte("false")) {
				t.Fatalf("%v: %s", err, a.out)
			}
			back, _, err := from.encode(r)
			if err != nil {
				t.Fatalf("%s\nbecame\n%s\nand came back with %v\n%s", body, a.out, err, back)
			}
			if got, want := callsOf(t, from.read(t, string(back))), callsOf(t, from.read(t, body)); got != want {
				t.Fatalf("%s\nbecame\n%s\nand came back as\n%s\nwith\n%s\nwant\n%s", body, a.out, back, got, want)
			}
		}
	}
}
