package api

import (
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
)

// TestTheLifeOfASessionIsNoLessThanItSays: numbers that overflow are refused, like those below 1 and above 30 days.
func TestTheLifeOfASessionIsNoLessThanItSays(t *testing.T) {
	for life, taken := range map[string]bool{
		"1": true, "2592000": true, `"720h"`: true, `"1ns"`: true,
		"0": false, "-1": false, "2592001": false, `"721h"`: false, `"-1h"`: false, `"x"`: false, "1.5": false, "true": false,
		"9223372037": false, "18446744074": false, "-18446744073": false, "-9223372036854775808": false, "9223372036854775807": false, "-36893488147": false,
	} {
		s, _, err := readSession([]byte(`{"expires_in":` + life + `}`))
		switch {
		case (err == nil) != taken:
			t.Errorf("expires_in %s: %v", life, err)
		case err != nil && !named(err, "expires_in"):
			t.Errorf("expires_in %s: %v does not name the member", life, err)
		case err == nil && time.Until(s.Expires) > 720*time.Hour:
			t.Errorf("expires_in %s: until %v", life, s.Expires)
		}
	}
}

// named reports whether an error is a fault of one member.
func named(err error, member string) bool {
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && f.Param == member
}
