package pii

import (
	"slices"
	"testing"
)

// TestNumbersInDigitsOfFullWidth: with full-width marks and spaces, and beside ASCII digits; other numbers in such digits are not found.
func TestNumbersInDigitsOfFullWidth(t *testing.T) {
	for _, row := range []struct {
		text string
		want []string
	}{
		{"私の携帯は０９０－８１２３－４５６７です", []string{"０９０－８１２３－４５６７"}},
		{"携帯：０８０ー３４５６ー７８９１", []string{"０８０ー３４５６ー７８９１"}},
		{"店の番号は０３−３５８１−４３２１、または ０６‐６３４５‐２１３１ です", []string{"０３−３５８１−４３２１", "０６‐６３４５‐２１３１"}},
		{"090-8123-4567 と ０９０－８１２３－４５６８", []string{"090-8123-4567", "０９０－８１２３－４５６８"}},
		{"国際電話 ＋８１　９０　８１２３　４５６７ まで", []string{"＋８１　９０　８１２３　４５６７"}},
		{"カードは４１１１　１１１１　１１１１　１１１１です", []string{"４１１１　１１１１　１１１１　１１１１"}},
		{"卡号：４１１１－１１１１－１１１１－１１１１。", []string{"４１１１－１１１１－１１１１－１１１１"}},
		{"カードは４１１１１１１１１１１１１１１２です", nil},
		{"注文番号は０９０－１２３４５６７８－１です", nil},
		{"第１－２－３章、２０２４年１０月、価格は１，２００円", nil},
		{"コーヒー１２３４、Ａ４用紙", nil},
		{"\xef\xbc", nil},
		{"１\xef\xbc", nil},
		{"\xef", nil},
	} {
		spans, err := NewScanner(Detectors{Types: Builtin}).Find(t.Context(), row.text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range spans {
			got = append(got, row.text[v.Start:v.End])
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.text, got, row.want)
		}
	}
	if spans, _ := (Detectors{Types: []Type{Email}}).Find(t.Context(), "０９０－８１２３－４５６７", nil); len(spans) != 0 {
		t.Errorf("types that are not looked for: %v", spans)
	}
}
