package sdk

import (
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
)

func TestReadsWhatDriversPrint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, out string
		cases     int
		fails     string
	}{
		{"a client and a case", `{"client":"x","version":"1.2"}` + "\n" + `{"case":"chat","ok":true}`, 1, ""},
		{"a case twice", `{"case":"chat","ok":true}{"case":"chat","ok":true}`, 1, `case "chat" came twice`},
		{"words", `{"case":"chat","ok":true}` + "\nTraceback", 1, "after 1 cases"},
		{"nothing", "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rep, err := read(strings.NewReader(c.out))
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %v, want %q", err, c.fails)
			}
			if len(rep.cases) != c.cases {
				t.Errorf("%d cases, want %d", len(rep.cases), c.cases)
			}
		})
	}
}

func TestParityFindsWhatIsRaisedOtherwise(t *testing.T) {
	t.Parallel()
	raised := func(class string, status int) report {
		return report{cases: map[string]result{"error-529": {Exception: class, Status: status}, "chat": {}}}
	}
	for _, c := range []struct {
		name            string
		dialect         fake.Dialect
		through, direct report
		differ          int
	}{
		{"alike", fake.Anthropic, raised("OverloadedError", 529), raised("OverloadedError", 529), 0},
		{"another class", fake.Anthropic, raised("ServiceUnavailableError", 529), raised("OverloadedError", 529), 1},
		{"another status", fake.Anthropic, raised("OverloadedError", 503), raised("OverloadedError", 529), 1},
		{"a status that its format does not have", fake.OpenAI, raised("InternalServerError", 503), raised("InternalServerError", 529), 0},
		{"a case that did not run", fake.Anthropic, report{}, raised("OverloadedError", 529), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := target{client: client{dialect: c.dialect}}
			if got := r.parity(c.through, c.direct); len(got) != c.differ {
				t.Errorf("got %q, want %d", got, c.differ)
			}
		})
	}
}
