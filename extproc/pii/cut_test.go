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
	for most := -1; most <= len(text)+1; most++ {
		head, tail := pii.Head(text, most), pii.Tail(text, most)
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || len(head) > max(most, 0) || len(tail) > max(most, 0) {
			t.Fatalf("%d bytes: %q and %q", most, head, tail)
		}
		if !utf8.ValidString(head) || !utf8.ValidString(tail) {
			t.Errorf("%d bytes: a character is cut in %q or %q", most, head, tail)
		}
		for _, h := range holders {
			at := strings.Index(text, h)
			if len(head) > at && len(head) < at+len(h) {
				t.Errorf("%d bytes: %q", most, head)
			}
			if begin := len(text) - len(tail); begin > at && begin < at+len(h) {
				t.Errorf("%d bytes: %q", most, tail)
			}
		}
		if most > 0 && most < len(text) && len(head) < most-20 {
			t.Errorf("%d bytes: only %q", most, head)
		}
	}
}
