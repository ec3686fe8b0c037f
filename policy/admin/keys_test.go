package admin

import (
	"fmt"
	"testing"
)

// TestTheIDOfAKeyFollowsFromTheWord: equal words give equal ids, different words different ones, and deriving terminates: unusable bytes are skipped.
func TestTheIDOfAKeyFollowsFromTheWord(t *testing.T) {
	words := map[string]string{}
	for i := range 2000 {
		word := fmt.Sprintf("word %d", i)
		one, err := derivedKey(word)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := derivedKey(word); err != nil || again.ID() != one.ID() {
			t.Fatalf("%q gives %s and %s, %v", word, one.ID(), again.ID(), err)
		}
		if first, taken := words[one.ID()]; taken {
			t.Fatalf("%q and %q both give %s", first, word, one.ID())
		}
		words[one.ID()] = word
	}
}
