package dryrun

import (
	"testing"

	"bardo.money/gateway/internal/header"
)

func TestAnExplanationIsAskedForByOneWord(t *testing.T) {
	for said, want := range map[string]struct{ asked, refused bool }{"": {}, "explain": {asked: true}, "Explain": {asked: true}, "yes": {refused: true}} {
		asked, err := IsRequested(header.List{{Name: Header, Value: said}})
		if asked != want.asked || (err != nil) != want.refused {
			t.Errorf("%q: %v, %v", said, asked, err)
		}
	}
}
