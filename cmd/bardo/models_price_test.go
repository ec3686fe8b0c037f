package main

import (
	"testing"

	"bardo.money/gateway/policy"
)

func TestPricesOfOtherUnitsForPeople(t *testing.T) {
	for want, u := range map[string]policy.UnitList{
		"0.36/hour":    {PerHour: 360_000},
		"15.00/M char": {Characters: 15_000_000},
		"0.0027/MP":    {PerMegapixel: 2_700_000_000},
		"0.07/image":   {PerImage: 70_000_000_000},
		"0.04/image":   {Images: map[string]policy.Pico{"standard/1024x1024": 40_000_000_000, "hd/1024x1024": 80_000_000_000}},
	} {
		if got := unitPrice(&u); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
