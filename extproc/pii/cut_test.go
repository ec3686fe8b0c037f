package pii_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"bardo.money/gateway/extproc/pii"
)

// TestATextIsCutBetweenCharactersAndPlaceholders at every length.
func TestATextIsCutBetweenCharactersAndPlaceholders(t *testing.T) {
	const text = "a <b> größe <EMAIL_3F2A9C7K>, <MY_TYPE_0F2A9C7K><IP_3F2A9C7K> 価格 < and <NOT_A_1> <EMAIL_3F2A9C7"
	holders := []string{"<EMAIL_3F2A9C7K>", "<MY_TYPE_0F2A9C7K>", "<IP_3F2A9C7K>"}
	for limit := -1; limit <= len(text)+1; limit++ {
		head, tail := pii.Head(text, limit), pii.Tail(text, limit)
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || len(head) > max(limit, 0) || len(tail) > max(limit, 0) {
			t.Fatalf("%d bytes: %q and %q", limit, head, tail)
		}
		if !utf8.ValidString(head) || !utf8.ValidString(tail) {
			t.Errorf("%d bytes: a character is cut in %q or %q", limit, head, tail)
		}
		for _, h := range holders {
			at := strings.Index(text, h)
			if len(head) > at && len(head) < at+len(h) {
				t.Errorf("%d bytes: %q", limit, head)
			}
			if begin := len(text) - len(tail); begin > at && begin < at+len(h) {
				t.Errorf("%d bytes: %q", limit, tail)
			}
		}
		if limit > 0 && limit < len(text) && len(head) < limit-20 {
			t.Errorf("%d bytes: only %q", limit, head)
		}
	}
}
