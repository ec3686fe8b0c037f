package transcript_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire/responses"
)

// TestResultsOfProvidersToolsAreResults: what the client returns for a shell, a patch, or a computer.
func TestResultsOfProvidersToolsAreResults(t *testing.T) {
	for item, want := range map[string][]string{
		`{"type":"local_shell_call_output","id":"x","call_id":"c1","output":"FOUND","status":"completed"}`:                                {"FOUND"},
		`{"type":"shell_call_output","call_id":"c1","output":[{"stdout":"OUT","stderr":"ERR","outcome":{"type":"exit","exit_code":0}}]}`:  {"OUT", "ERR"},
		`{"type":"apply_patch_call_output","call_id":"c1","status":"failed","output":"NO FILE"}`:                                          {"NO FILE"},
		`{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,AAAA"}}`: nil,
		`{"type":"function_call_output","call_id":"c1","output":"PLAIN"}`:                                                                 {"PLAIN"},
		`{"type":"local_shell_call","call_id":"c1","action":{"type":"exec","command":["ls"]}}`:                                            nil,
		`{"role":"user","content":[{"type":"local_shell_call_output","output":"A USER SAYS"}]}`:                                           nil,
	} {
		r, err := responses.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","input":[`+item+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		tr, err := transcript.Of(r)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range tr.Texts {
			if at := &tr.Texts[i]; at.Kind == transcript.Result {
				got = append(got, tr.String(i))
				if at.Call != "c1" || at.ProviderDefined == slices.Contains(want, "PLAIN") {
					t.Errorf("%s: %+v", item, at)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the results are %q, want %q", item, got, want)
		}
	}
}
