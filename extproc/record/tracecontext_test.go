package record

import (
	"strings"
	"testing"
)

const clientParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestE04ATraceGoesOnOnlyFromAValidTraceparent(t *testing.T) {
	for _, row := range []struct{ about, header, valid string }{
		{"a valid one", clientParent, clientParent},
		{"not sampled", strings.TrimSuffix(clientParent, "01") + "00", strings.TrimSuffix(clientParent, "01") + "00"},
		{"a later version with more behind it", "cc" + clientParent[2:] + "-what-comes", "cc" + clientParent[2:]},
		{"nothing", "", ""},
		{"version ff", "ff" + clientParent[2:], ""},
		{"version 00 with more behind it", clientParent + "-more", ""},
		{"a later version with more in place of a dash", "cc" + clientParent[2:] + "x", ""},
		{"upper case", strings.ToUpper(clientParent), ""},
		{"no trace", "00-" + strings.Repeat("0", 32) + clientParent[35:], ""},
		{"no parent", clientParent[:36] + strings.Repeat("0", 16) + "-01", ""},
		{"another text of its length", strings.Repeat("x", len(clientParent)), ""},
		{"a text with dashes", "00-" + strings.Repeat("x", 32) + "-" + strings.Repeat("x", 16) + "-01", ""},
		{"cut off", clientParent[:54], ""},
	} {
		if got := ValidTraceParent(row.header); got != row.valid {
			t.Errorf("%s: %q", row.about, got)
		}
		c := TraceOf("req_1", row.header)
		if inherits := c.Parent != [8]byte{}; inherits != (row.valid != "") {
			t.Errorf("%s: a parent %v", row.about, inherits)
		}
	}
}

func TestIDsOfATraceFollowFromItsRequest(t *testing.T) {
	a, again, b := TraceOf("req_a", ""), TraceOf("req_a", ""), TraceOf("req_b", "")
	if a != again || a.TraceID == b.TraceID || a.SpanID == b.SpanID || a.TraceID == [16]byte{} {
		t.Errorf("%v, %v, %v", a, again, b)
	}
	if a.ChildSpan("attempt/0") == a.ChildSpan("attempt/1") || a.ChildSpan("attempt/0") == a.SpanID {
		t.Error("two spans have one id")
	}
	client := TraceOf("req_a", clientParent)
	if h := client.Header(); h[:36] != clientParent[:36] || h == clientParent || ValidTraceParent(h) == "" {
		t.Errorf("a provider is sent %q", h)
	}
}

// FuzzTraceParent: for any client input, the result is empty or a valid traceparent.
func FuzzTraceParent(f *testing.F) {
	for _, s := range []string{clientParent, "", "00-", "cc" + clientParent[2:] + "-x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := ValidTraceParent(s)
		if v == "" {
			return
		}
		if len(v) != traceParentLength || !strings.HasPrefix(s, v) || strings.Trim(v, "0123456789abcdef-") != "" {
			t.Errorf("%q of %q", v, s)
		}
		if h := TraceOf("r", s).Header(); ValidTraceParent(h) != h {
			t.Errorf("a provider is sent %q", h)
		}
	})
}
