package modelfile

import (
	"testing"
	"time"
)

// TestB17PartsOfTheDay: their ends, those over midnight, and their days.
func TestB17PartsOfTheDay(t *testing.T) {
	night := HourPrice{From: "16:30", To: "00:30"}
	weekend := HourPrice{From: "22:00", To: "02:00", Days: []string{"sat"}}
	day := HourPrice{From: "08:00", To: "24:00"}
	for _, row := range []struct {
		part  HourPrice
		at    string // 2026-11-28 is a Saturday
		holds bool
		next  string
	}{
		{night, "2026-11-27T16:29:59Z", false, "2026-11-27T16:30:00Z"},
		{night, "2026-11-27T16:30:00Z", true, "2026-11-28T00:30:00Z"},
		{night, "2026-11-28T00:29:59Z", true, "2026-11-28T00:30:00Z"},
		{night, "2026-11-28T00:30:00Z", false, "2026-11-28T16:30:00Z"},
		{night, "2026-11-27T18:00:00+09:00", false, "2026-11-27T16:30:00Z"},
		{weekend, "2026-11-28T22:00:00Z", true, "2026-11-29T02:00:00Z"},
		{weekend, "2026-11-29T01:59:00Z", true, "2026-11-29T02:00:00Z"},
		{weekend, "2026-11-29T22:00:00Z", false, "2026-11-30T02:00:00Z"},
		{weekend, "2026-11-28T01:00:00Z", false, "2026-11-28T02:00:00Z"},
		{day, "2026-11-28T23:59:59Z", true, "2026-11-29T00:00:00Z"},
		{day, "2026-11-29T00:00:00Z", false, "2026-11-29T08:00:00Z"},
		{HourPrice{From: "x", To: "24:01"}, "2026-11-29T00:00:00Z", false, "0001-01-01T00:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, row.at)
		if err != nil {
			t.Fatal(err)
		}
		now, until := (&Price{Hours: []HourPrice{row.part}}).At(at)
		if (now != nil) != row.holds || until.Format(time.RFC3339) != row.next {
			t.Errorf("%s at %s: holds %t, until %s", row.part.Name(), row.at, now != nil, until.Format(time.RFC3339))
		}
	}
}

func TestAClockIsReadInOneForm(t *testing.T) {
	for text, want := range map[string]int{"00:00": 0, "16:30": 990, "24:00": 1440, "24:01": -1, "7:00": -1, "12:60": -1, "12": -1, "": -1, "-1:00": -1, "+1:00": -1} {
		got, ok := ParseClock(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
