package pii

import (
	"strings"
	"testing"
)

func TestCardNumbersInSeveralStrings(t *testing.T) {
	for _, row := range []struct {
		text  string
		found string // values, separated by spaces
	}{
		{`{"card1":"4111","card2":"1111","card3":"1111","card4":"1111","cvv":"1234"}`, "4111 1111 1111 1111"},
		{`{"card":["4111","1111","1111","1111"]}`, "4111 1111 1111 1111"},
		{`[{"cards":[{"a":"3782","b":"822463","c":"10005"}]}]`, "3782 822463 10005"},
		{`{"cardType":"visa","card":{"id":"7777","p":["4111","1111","1111","1111"]}}`, "4111 1111 1111 1111"},
		{`{"card":{"n":"9999","a":"4111","b":"1111","c":"1111","d":"1111"}}`, "4111 1111 1111 1111"},
		{`{"list":["4111","1111","1111","1111"]}`, ""},                       // no name says so
		{`{"card":["4111","1111","1111","1112"]}`, ""},                       // the check digit
		{`{"card":{"a":"4111","b":"1111"},"c":{"a":"1111","b":"1111"}}`, ""}, // two objects
		{`{"card":["4111","1111","x","1111","1111"]}`, ""},                   // something between
		{`{"card1":"4111","card2":"1111","card3":"1111","year":"1111"}`, ""}, // a member that is not the card's
		{`{"card":["411111","1111","111111"]}`, ""},                          // no card is printed so
		{`{"card":["4111","1111","1111","1111"]`, ""},                        // no JSON
		{`see {"card":["4111","1111","1111","1111"]}`, ""},                   // nor this
		{`{"card":["\u0034111","1111","1111","1111"]}`, ""},                  // written with an escape
		{`{"card":[4111,1111,1111,1111]}`, "4111 1111 1111 1111"},            // as numbers
		{`{"cardNumber": [3782, 822463, 10005]}`, "3782 822463 10005"},
		{`{"card1":4111,"card2":1111,"card3":1111,"card4":1111,"cvv":1234}`, "4111 1111 1111 1111"},
		{`{"payment":{"card":{"groups":[4111,1111,1111,1111],"year":2031}}}`, "4111 1111 1111 1111"},
		{`{"credit_card":{"a":4111,"b":1111,"c":1111,"d":1111,"year":2031}}`, "4111 1111 1111 1111"},
		{`{"pan":[4539,148,8034,6467]}`, ""},                                       // the check digit
		{`{"pan":[4539,148,8034,6468]}`, "4539 8034 6468"},                         // the second group is 0148
		{`{"cards":[4111,1111,1111,1111]}`, ""},                                    // several cards
		{`{"cardinality":[4111,1111,1111,1111]}`, ""},                              // no card
		{`{"card":{"stock":[4111,1111,1111,1111]}}`, ""},                           // not its number
		{`{"card":[4111,1111,1111,1111,1111]}`, ""},                                // more than a number
		{`{"card":["x",4111,1111,1111,1111]}`, ""},                                 // something else
		{`{"card":[4111,1111,1111,1112]}`, ""},                                     // the check digit
		{`{"card":[41.11,1111,1111,1111]}`, ""},                                    // no whole number
		{strings.Repeat("[", 20_000) + `"4111"` + strings.Repeat("]", 20_000), ""}, // deep
	} {
		spans, err := NewScanner(Detectors{Types: Builtin}).Find(t.Context(), row.text)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, s := range spans {
			if s.Type != Card {
				t.Errorf("%.80s has a %s", row.text, s.Type)
			}
			found = append(found, row.text[s.Start:s.End])
		}
		if got := strings.Join(found, " "); got != row.found {
			t.Errorf("%.80s has %q, want %q", row.text, got, row.found)
		}
	}
	if spans, _ := (Detectors{Types: []Type{Email}}).Find(t.Context(), `{"card":["4111","1111","1111","1111"]}`, nil); len(spans) != 0 {
		t.Error("groups are found although cards are not looked for")
	}
}
