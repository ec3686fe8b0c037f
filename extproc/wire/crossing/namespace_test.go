package crossing_test

import (
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/fault"
)

// TestToolsInNamespacesReachOtherFormats, from the list of tools and from the input, and what cannot be expressed there is refused with its place.
func TestToolsInNamespacesReachOtherFormats(t *testing.T) {
	const (
		hi    = `{"role":"user","content":"hi"}`
		first = `{"type":"namespace","name":"a","tools":[{"type":"function","name":"find","parameters":{"type":"object"}}]}`
		other = `{"type":"namespace","name":"b","tools":[{"type":"function","name":"send","parameters":{"type":"object"}}]}`
		same  = `{"type":"namespace","name":"b","tools":[{"type":"function","name":"find","parameters":{"type":"object"}}]}`
	)
	for _, row := range []struct{ body, refused string }{
		{`"input":[{"type":"additional_tools","role":"developer","tools":[` + first + `]},` + hi + `],"tools":[` + other + `]`, ""},
		{`"input":[{"type":"additional_tools","role":"developer","tools":[` + first + `,` + same + `]},` + hi + `]`, "input[0]"},
		{`"input":[` + hi + `],"tools":[` + first + `,` + same + `]`, "tools[0]"},
	} {
		for _, way := range responsesWays {
			r, err := responses.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m",`+row.body+`}`))
			if err != nil {
				t.Fatal(err)
			}
			out, degraded, err := way.to.encode(r)
			switch f, ok := errors.AsType[*fault.Fault](err); {
			case row.refused != "":
				if !ok || f.Param != row.refused {
					t.Errorf("%s: %s: %v, want a refusal of %s", way.dir, row.body, err, row.refused)
				}
			case err != nil || len(degraded) > 0 || !strings.Contains(string(out), `"find"`) || !strings.Contains(string(out), `"send"`):
				t.Errorf("%s: %s became %s, %v, %v", way.dir, row.body, out, degraded, err)
			}
		}
	}
}
