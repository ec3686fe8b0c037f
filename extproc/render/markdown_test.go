package render

import (
	"strings"
	"testing"
)

func TestNoticeOfHiddenReasoning(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		tokens    int64
		estimated bool
		want      string
	}{
		{312, false, "Reasoning performed (not visible): 312 tokens"},
		{12345, true, "Reasoning performed (not visible): about 12345 tokens"},
		{0, true, "Reasoning performed (not visible)"},
	} {
		if got := Notice(row.tokens, row.estimated); got != row.want {
			t.Errorf("%d: %q, want %q", row.tokens, got, row.want)
		}
	}
}

func TestMarkdownStaysInItsPanel(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"nothing":                          {"", ""},
		"plain":                            {"\n\nFirst, **look**.\n\nThen act.\n", "First, **look**.\n\nThen act."},
		"indented at its start":            {"    x = 1\n", "    x = 1"},
		"code":                             {"So:\n```go\nx := 1\n```\nDone.", "So:\n```go\nx := 1\n```\nDone."},
		"code that was cut":                {"So:\n```go\nx := 1", "So:\n```go\nx := 1\n```"},
		"cut at the end of a line":         {"```\nx\n", "```\nx\n```"},
		"a longer fence":                   {"````md\n```\n", "````md\n```\n````"},
		"a fence of the other kind inside": {"~~~\n```\n", "~~~\n```\n~~~"},
		"a fence with words ends nothing":  {"```\n``` go\n", "```\n``` go\n```"},
		"a longer fence ends it":           {"```\nx\n`````\n", "```\nx\n`````"},
		"code within a line":               {"say ```x``` and", "say ```x``` and"},
		"a line that begins with code":     {"```x``` and", "```x``` and"},
		"two are no fence":                 {"``\nx", "``\nx"},
		"four spaces are no fence":         {"    ```\nx", "    ```\nx"},
		"three spaces are one":             {"   ```\nx", "   ```\nx\n```"},
		"windows":                          {"```\r\nx\r\n```\r\ndone\r\n", "```\r\nx\r\n```\r\ndone"},
	} {
		if got := Markdown(row.text); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// FuzzMarkdown: a text keeps all of its lines, gets at most one more, and is complete afterwards.
func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"a\n```go\nb", "~~~\n```\n~~~~", "   ````\n```\n", "`x`<b>", "\r\n```\r"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Markdown(text)
		kept := strings.Trim(text, "\r\n")
		if !strings.HasPrefix(got, kept) {
			t.Fatalf("%q lost something of %q", got, text)
		}
		if more := strings.Trim(got[len(kept):], "\n`~"); more != "" {
			t.Fatalf("%q was added", more)
		}
		if again := Markdown(got); again != got {
			t.Fatalf("%q is not complete: %q", got, again)
		}
	})
}
