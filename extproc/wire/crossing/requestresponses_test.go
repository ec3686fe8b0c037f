package crossing_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/jsonx"
)

// responsesSide sends requests of Responses clients to providers of every dialect; for requests of other clients to Responses, see
// toResponsesSide.
var responsesSide = side{dialect: responses.Dialect{}, encode: func(r *chat.Request) ([]byte, []string, error) {
	return responses.EncodeRequest(nil, r, responses.RequestOptions{Model: "gpt"})
}}

var responsesWays = []struct {
	dir string
	to  side
}{
	{"responses-to-openai", openaiSide},
	{"responses-to-anthropic", anthropicSide},
	{"responses-to-gemini", side{encode: func(r *chat.Request) ([]byte, []string, error) {
		return gemini.EncodeRequest(nil, r, gemini.RequestOptions{})
	}}},
}

func TestRequestsOfResponsesClients(t *testing.T) {
	for dir, encode := range map[string]func(*testing.T, pair, *chat.Request) (encoded, error){
		"responses-to-openai": func(t *testing.T, p pair, r *chat.Request) (e encoded, err error) {
			t.Helper()
			e.body, e.degraded, err = openai.EncodeRequest(nil, r, openaiOptions(t, p.options()))
			return e, err
		},
		"responses-to-anthropic": func(t *testing.T, p pair, r *chat.Request) (e encoded, err error) {
			t.Helper()
			e.body, e.degraded, err = anthropic.EncodeRequest(nil, r, anthropicOptions(t, p.options()))
			return e, err
		},
		"responses-to-gemini": func(_ *testing.T, _ pair, r *chat.Request) (e encoded, err error) {
			e.body, e.degraded, err = gemini.EncodeRequest(nil, r, gemini.RequestOptions{})
			return e, err
		},
		"responses-to-responses": func(_ *testing.T, _ pair, r *chat.Request) (e encoded, err error) {
			e.body, e.degraded, err = responses.EncodeRequest(nil, r, responses.RequestOptions{Model: "gpt-up"})
			return e, err
		},
	} {
		t.Run(dir, func(t *testing.T) {
			runPairs(t, "testdata/request/"+dir, func(t *testing.T, p pair) []txtar.File {
				t.Helper()
				return crossed(t, responses.Dialect{}, p, func(r *chat.Request) (encoded, error) { return encode(t, p, r) })
			})
		})
	}
}

// FuzzEveryMemberOfAResponsesRequestIsSentOrNamed: see FuzzEveryMemberIsSentOrNamed.
func FuzzEveryMemberOfAResponsesRequestIsSentOrNamed(f *testing.F) {
	for i, way := range responsesWays {
		all := pairs(f, "testdata/request/"+way.dir)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f.Add(all[name].file("in.json"), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, body string, way uint8) {
		checkMembers(t, responsesSide, responsesWays[int(way)%len(responsesWays)].to, body)
	})
}

func FuzzEveryMemberOfAResponsesRequestIsSentOrNamedAmongOthers(f *testing.F) {
	all := members(f, "responses-to-openai")
	for key, values := range members(f, "responses-to-anthropic") {
		all[key] = append(all[key], values...)
	}
	for seed := range uint64(500) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, way := range responsesWays {
			checkMembers(t, responsesSide, way.to, mixed(seed, all))
		}
	})
}

// TestAnUnknownMemberOfAResponsesRequestIsNamed: see TestAnUnknownMemberIsNamedAtAnyDepth.
func TestAnUnknownMemberOfAResponsesRequestIsNamed(t *testing.T) {
	for _, way := range responsesWays {
		for name, p := range pairs(t, "testdata/request/"+way.dir) {
			whole := encodeAcross(t, responsesSide, way.to, p.file("in.json"))
			if whole == nil {
				continue
			}
			for _, at := range responsesPlaces(whole) {
				var e jsonx.Edits
				e.Replace(at, at, jsonx.Raw(`"zz":1,`))
				body := string(e.AppendTo(nil, &whole.r.Doc))
				if a := encodeAcross(t, responsesSide, way.to, body); a != nil && !slices.Contains(a.degraded, "zz") {
					t.Errorf("%s: %s\nnames %v", name, body, a.degraded)
				}
			}
		}
	}
}

// responsesPlaces returns the offsets in a request and in its input.
func responsesPlaces(a *memberCheck) []int {
	found := places(a)
	for _, item := range a.r.Doc.Get("input").Each {
		if kind, _ := item.Get("type").Str(); kind == "message" || kind == "" || kind == "function_call" || kind == "reasoning" {
			found = append(found, item.At+1)
		}
	}
	return found
}

func TestK25AResponsesRequestGivesTheSameBytes(t *testing.T) {
	for _, way := range responsesWays {
		for name, p := range pairs(t, "testdata/request/"+way.dir) {
			first := encodeAcross(t, responsesSide, way.to, p.file("in.json"))
			for range 20 {
				if second := encodeAcross(t, responsesSide, way.to, p.file("in.json")); first != nil && second.out != first.out {
					t.Fatalf("%s: %s\nthen\n%s", name, first.out, second.out)
				}
			}
		}
	}
}

// TestAResponsesRequestKeepsItsBytes, if its provider speaks the same dialect.
func TestAResponsesRequestKeepsItsBytes(t *testing.T) {
	for _, way := range responsesWays {
		for name, p := range pairs(t, "testdata/request/"+way.dir) {
			body := []byte(p.file("in.json"))
			r, err := responses.Dialect{}.Decode(chat.Generate, nil, "", body)
			if err != nil || bytes.Contains(body, []byte("bardo")) {
				continue
			}
			if out, names, err := responses.EncodeRequest(nil, r, responses.RequestOptions{}); err != nil || len(names) > 0 || !bytes.Equal(out, body) {
				t.Errorf("%s: %v %v\n%s\nwant\n%s", name, err, names, out, body)
			}
		}
	}
}
