package admin

import (
	"fmt"
	"testing"
)

// TestTheIDOfAKeyFollowsFromTheWord: the same word gives the same id, each other word another one, and none takes forever: bytes that an id cannot use are skipped.
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
