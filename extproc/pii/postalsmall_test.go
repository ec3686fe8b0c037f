package pii

import "testing"

// TestGermanStreetsOfTwoWords in lower case: the start of the address, and texts without one.
func TestGermanStreetsOfTwoWords(t *testing.T) {
	for text, want := range map[string]string{
		"er wohnt in der berliner straße 120, 13187 berlin.": "berliner straße 120, 13187 berlin",
		"Wohnhaft: MÜNCHNER Str. 3a, 80331 münchen":          "MÜNCHNER Str. 3a, 80331 münchen",
		"frankfurter allee 12\n10247 berlin":                 "frankfurter allee 12\n10247 berlin",
		"alter markt 3, 50667 köln":                          "alter markt 3, 50667 köln",
		"in unserer straße 3, 10115 berlin":                  "straße 3, 10115 berlin", // without the word before
		"in der straße 3, 10115 berlin":                      "straße 3, 10115 berlin",
		"hauptstraße 3, 10115 berlin":                        "hauptstraße 3, 10115 berlin",
		"das haus am ufer 3, 10115 berlin":                   "",
		"in welcher gasse 3, 10115 berlin":                   "",
		"kleiner weg 2, 10000 kekse":                         "",
		"frankfurter allee 12 und 10247 andere":              "",
		"frankfurter allee 12, 10247 kunden":                 "",
		" platz 12, 10247 berlin":                            "",
	} {
		spans, err := NewScanner(Detectors{Types: []Type{Postal}}).Find(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, v := range spans {
			got += text[v.Start:v.End]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
